//! Both sides of TLS, over a pipe in memory, with certificates as `plimsoll certificates` makes them.

use std::fs;
use std::time::{Duration, SystemTime};

use plimsoll_base::time::Instant as Moment;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::certificates::{Authority, Hosts, Purpose, make_ca};

/// The cluster of all nodes here.
const CLUSTER: &str = "east";

/// A folder with authorities `a` and `b`, and `twin`, which has the name of `a`.
struct Folder {
    folder: tempfile::TempDir,
    authorities: Vec<(String, Authority)>,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut authorities = Vec::new();
        for (name, called) in [("a", "a"), ("b", "b"), ("twin", "a")] {
            let made = make_ca(called, 100, SystemTime::now()).unwrap();
            fs::write(folder.path().join(format!("{name}.crt")), &made.certificate).unwrap();
            let authority = Authority::read(&made.certificate, &made.key).unwrap();
            authorities.push((name.to_owned(), authority));
        }
        Self { folder, authorities }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate under this name, signed by one of the authorities some days ago, for ten days.
    fn make(&self, name: &str, authority: &str, host: Option<&str>, days_ago: u64) -> Identity {
        let purpose = match host {
            Some(host) => Purpose::Server(Hosts {
                dns: vec![host.to_owned()],
                ips: vec!["127.0.0.1".parse().unwrap()],
            }),
            None => Purpose::Client,
        };
        self.make_for(name, authority, &purpose, days_ago)
    }

    fn make_for(&self, name: &str, authority: &str, purpose: &Purpose, days_ago: u64) -> Identity {
        let at = SystemTime::now() - Duration::from_secs(days_ago * 86_400);
        let (_, signer) = self.authorities.iter().find(|(it, _)| it == authority).unwrap();
        let made = signer.make(name, purpose, 10, at).unwrap();
        let [certificate, key] = ["crt", "key"].map(|end| self.path(&format!("{name}.{end}")));
        fs::write(&certificate, &made.certificate).unwrap();
        fs::write(&key, &made.key).unwrap();
        Identity { certificate, key }
    }

    fn server(&self, identity: Identity, authority: Option<&str>) -> ServerFiles {
        let authorities = authority.map(|it| self.path(&format!("{it}.crt"))).into_iter().collect();
        ServerFiles { identity, authorities }
    }

    fn client(&self, authority: &str, identity: Option<Identity>) -> ClientFiles {
        ClientFiles { authorities: vec![self.path(&format!("{authority}.crt"))], identity }
    }
}

/// Connects and sends a word each way: what went wrong, as the client sees it.
async fn meet(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    name: &str,
) -> Result<(), String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let accepted = tokio::spawn(async move {
        let mut stream = TlsAcceptor::from(server).accept(far).await?;
        stream.write_all(b"hello").await?;
        stream.flush().await?;
        stream.read_exact(&mut [0; 5]).await?;
        Ok::<_, std::io::Error>(())
    });
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connected = async {
        let mut stream = TlsConnector::from(client).connect(name, near).await?;
        stream.read_exact(&mut [0; 5]).await?;
        stream.write_all(b"hello").await?;
        stream.flush().await?;
        Ok::<_, std::io::Error>(())
    };
    let connected = connected.await.map_err(|error| cause_in_words(&error));
    let accepted = accepted.await.unwrap();
    assert_eq!(connected.is_ok(), accepted.is_ok(), "{connected:?} {accepted:?}");
    connected
}

#[tokio::test]
async fn both_sides_are_checked_where_both_have_authorities() {
    let folder = Folder::new();
    let node = folder.make("node", "a", Some("leader.example"), 0);
    let follower = folder.make("follower", "a", None, 0);
    let stranger = folder.make("stranger", "b", None, 0);
    let old = folder.make("old", "a", Some("leader.example"), 11);
    let time = &Time::of_the_machine();
    let open = folder.server(node.clone(), None);
    let strict = folder.server(node.clone(), Some("a"));
    let late = folder.server(old, None);
    let masked = folder.server(follower.clone(), None);
    let [plain, with_own, with_other] =
        [None, Some(follower), Some(stranger)].map(|it| folder.client("a", it));
    let [other, twin] = ["b", "twin"].map(|it| folder.client(it, None));
    for (server_files, client_files, name, refusal) in [
        (&open, &plain, "leader.example", None),
        (&open, &plain, "127.0.0.1", None),
        (&strict, &with_own, "leader.example", None),
        (&open, &with_own, "leader.example", None),
        (&open, &plain, "other.example", Some("is not for `other.example`")),
        (&open, &plain, "127.0.0.2", Some("is not for `127.0.0.2`")),
        (&open, &other, "leader.example", Some("signed by none of the authorities")),
        (&open, &twin, "leader.example", Some("signed by none of the authorities")),
        (&strict, &plain, "leader.example", Some("certificate of the side that connects")),
        (&strict, &with_other, "leader.example", Some("does not take the certificate")),
        (&late, &plain, "leader.example", Some("has expired")),
        (&masked, &plain, "leader.example", Some("another purpose")),
    ] {
        let server = server("test", server_files.clone(), Rules::Clusters, time).unwrap().get();
        let client = client(client_files.clone(), time).unwrap().get();
        let met = meet(server, client, name).await;
        match refusal {
            None => assert_eq!(met, Ok(()), "{name}"),
            Some(words) => {
                let refused = met.unwrap_err();
                assert!(refused.contains(words), "{words}: {refused}");
            }
        }
    }
}

#[tokio::test]
async fn certificates_are_replaced_while_they_are_used() {
    let folder = Folder::new();
    let node = folder.make("node", "a", Some("leader.example"), 0);
    let (time, passing) = Time::simulated(0);
    let server = server("test", folder.server(node.clone(), None), Rules::Clusters, &time).unwrap();
    let trusts_a = client(folder.client("a", None), &time).unwrap().get();
    let trusts_b = client(folder.client("b", None), &time).unwrap().get();
    let meets = |second, client: &Arc<ClientConfig>| {
        passing.pass_until(Moment::default() + Duration::from_secs(second));
        let (server, client) = (server.get(), Arc::clone(client));
        async move { meet(server, client, "leader.example").await.is_ok() }
    };
    assert!(meets(1, &trusts_a).await && !meets(1, &trusts_b).await);
    // A key that does not belong to the certificate: in the middle of a replacement.
    let kept = fs::read(&node.key).unwrap();
    let next = folder.make("next", "b", Some("leader.example"), 0);
    fs::copy(&next.key, &node.key).unwrap();
    assert!(meets(2, &trusts_a).await, "the old ones hold on");
    fs::copy(&next.certificate, &node.certificate).unwrap();
    assert!(meets(3, &trusts_b).await && !meets(3, &trusts_a).await);
    fs::write(&node.key, kept).unwrap();
    assert!(meets(4, &trusts_b).await);
}

#[test]
fn files_that_do_not_do_are_named() {
    let folder = Folder::new();
    let node = folder.make("node", "a", Some("leader.example"), 0);
    let other = folder.make("other", "a", Some("leader.example"), 0);
    let time = &Time::of_the_machine();
    let crossed = Identity { certificate: node.certificate.clone(), key: other.key };
    let turned = Identity { certificate: node.key.clone(), key: node.certificate.clone() };
    let missing = Identity { certificate: folder.path("none.crt"), key: node.key.clone() };
    for (identity, file, why) in [
        (crossed, "node.crt", "the key does not belong to the certificate"),
        (turned, "node.key", "has no certificate"),
        (missing, "none.crt", "No such file"),
    ] {
        let refused = server("test", folder.server(identity, None), Rules::Clusters, time)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains(file) && refused.contains(why), "{refused}");
        assert!(!refused.contains("BEGIN"), "{refused}");
    }
    let refused = client(folder.client("none", None), time).err().unwrap().to_string();
    assert!(refused.contains("none.crt"), "{refused}");
}

/// A pair of files of a node of a cluster of this name.
fn member(folder: &Folder, name: &str, cluster: &str, authority: &str) -> Identity {
    let purpose = Purpose::Node { hosts: Hosts::default(), cluster: cluster.to_owned() };
    folder.make_for(name, authority, &purpose, 0)
}

#[tokio::test]
async fn nodes_take_nodes_of_their_cluster_alone() {
    let folder = Folder::new();
    let [one, two] = ["node-1", "node-2"].map(|name| member(&folder, name, CLUSTER, "a"));
    let other = member(&folder, "node-3", "west", "a");
    let foreign = member(&folder, "node-4", CLUSTER, "b");
    let client = folder.make("client", "a", None, 0);
    let time = &Time::of_the_machine();
    // Each side as it would be if it did not look at its own certificate.
    let met = async |at: &Identity, from: Option<&Identity>| {
        let members = || Members::of(CLUSTER, "node-1");
        let rules = Rules::Nodes(members());
        let mut server = server_config(&folder.server(one.clone(), Some("a")), &rules).unwrap();
        let (chain, key) = (certificates(&at.certificate).unwrap(), private_key(&at.key).unwrap());
        let key = provider().key_provider.load_private_key(key).unwrap();
        let certified = Arc::new(CertifiedKey::new(chain, key));
        server.cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        let mut client = client_config(&folder.client("a", from.cloned())).unwrap();
        let roots = roots(&[folder.path("a.crt")]).unwrap();
        let verifier = MembersAsServers::new(members(), roots);
        client.dangerous().set_certificate_verifier(Arc::new(verifier));
        meet(Arc::new(server), Arc::new(client), "0.0.0.0").await
    };
    assert_eq!(met(&one, Some(&two)).await, Ok(()));
    assert_eq!(met(&two, Some(&one)).await, Ok(()));
    for (at, from, why) in [
        (&one, None, "shows none"),
        (&one, Some(&client), "does not take the certificate"),
        (&one, Some(&other), "does not take the certificate"),
        (&one, Some(&foreign), "does not take the certificate"),
        (&other, Some(&one), "a node of another cluster"),
        (&foreign, Some(&one), "signed by none of the authorities"),
    ] {
        let refused = met(at, from).await.unwrap_err();
        assert!(refused.contains(why), "{why}: {refused}");
    }
    for (identity, why) in
        [(&two, "is for the node `node-2`"), (&other, "another cluster"), (&client, "no node's")]
    {
        let rules = Rules::Nodes(Members::of(CLUSTER, "node-1"));
        let refused =
            server("test", folder.server(identity.clone(), Some("a")), rules, time).err().unwrap();
        assert!(refused.to_string().contains(why), "{why}: {refused}");
        let files = folder.client("a", Some(identity.clone()));
        let refused = node_client(files, Members::of(CLUSTER, "node-1"), time).err().unwrap();
        assert!(refused.to_string().contains(why), "{why}: {refused}");
    }
}

#[test]
fn a_node_is_named_in_its_certificate_and_its_cluster_is_not() {
    let uri = member::node_uri("geheim", "köln 1/a");
    assert!(!uri.contains("geheim") && uri.is_ascii(), "{uri}");
    let folder = Folder::new();
    let (_, signer) = &folder.authorities[0];
    let purpose = Purpose::Node { hosts: Hosts::default(), cluster: "geheim".to_owned() };
    let made = signer.make("köln 1/a", &purpose, 10, SystemTime::now()).unwrap();
    let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
    assert_eq!(Members::of("geheim", "x").node_of(&der), Ok("köln 1/a".to_owned()));
    assert_eq!(Members::of("gehei", "x").node_of(&der), Err(MemberError::OtherCluster));
    assert!(!der.windows(6).any(|bytes| bytes == b"geheim"));
    assert_eq!(
        Members::of("x", "x").node_of(&CertificateDer::from(vec![1, 2])),
        Err(MemberError::NoNode)
    );
}

/// Clients take up a session where they left it, until the files change.
#[tokio::test]
async fn sessions_of_clients_are_resumed_until_files_change() {
    let folder = Folder::new();
    let node = folder.make("node", "a", Some("leader.example"), 0);
    let (time, passing) = Time::simulated(0);
    let server = server("test", folder.server(node.clone(), None), Rules::Resp, &time).unwrap();
    let mut client = client_config(&folder.client("a", None)).unwrap();
    client.resumption = Resumption::in_memory_sessions(8);
    client.alpn_protocols.clear();
    let client = Arc::new(client);
    let kind = async |second| {
        passing.pass_until(Moment::default() + Duration::from_secs(second));
        let config = server.get();
        let (near, far) = tokio::io::duplex(1 << 16);
        let accepted = tokio::spawn(async move {
            let mut stream = TlsAcceptor::from(config).accept(far).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            stream.flush().await.unwrap();
            stream.get_ref().1.handshake_kind().unwrap()
        });
        let name = ServerName::try_from("leader.example").unwrap();
        let mut stream = TlsConnector::from(Arc::clone(&client)).connect(name, near).await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        accepted.await.unwrap()
    };
    use rustls::HandshakeKind::{Full, Resumed};
    assert_eq!((kind(0).await, kind(0).await), (Full, Resumed));
    let next = folder.make("next", "a", Some("leader.example"), 0);
    fs::copy(&next.key, &node.key).unwrap();
    fs::copy(&next.certificate, &node.certificate).unwrap();
    assert_eq!((kind(2).await, kind(2).await), (Full, Resumed));
}
