//! Digests of copies, to compare them: equal at the same position of the log, or a copy is wrong.
//! The threads that apply compute them, because only they know a position exactly.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use plimsoll_base::time::Instant;

use crate::Coordinator;
use crate::metadata::members::Member;
use crate::replication::digest::{Digest, DigestError};
use crate::replication::tables::Copies;
use crate::wire::{Problem, Question, Reply};

/// How long one copy has: all its rows are read.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon copies are asked again that were not at one position.
const PAUSE: Duration = Duration::from_millis(50);

/// The digest of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDigest {
    /// The table that it is of.
    pub table: String,
    /// Which of its partitions.
    pub ordinal: u32,
    /// The name of its node.
    pub node: String,
    /// What it contains, or why that is not known.
    pub digest: Result<Digest, DigestError>,
}

impl Coordinator {
    /// The digests of all serving copies of these tables, or of all; those of one partition at the
    /// same position, where they come to one within `timeout`.
    pub async fn digests(&self, tables: Option<&[String]>, timeout: Duration) -> Vec<CopyDigest> {
        let end = self.shared().world.time.now() + timeout;
        let mut found = Vec::new();
        for table in self.shared().tables.all() {
            if tables.is_some_and(|names| !names.iter().any(|name| name == table.name())) {
                continue;
            }
            for copies in table.copies() {
                found.extend(self.digests_of(table.name(), copies, end).await);
            }
        }
        found
    }

    async fn digests_of(&self, table: &str, copies: &Copies, end: Instant) -> Vec<CopyDigest> {
        loop {
            let members = self.shared().members.all();
            let definition = copies.definition();
            let serving = definition.serving().filter_map(|node| members.get(node));
            let there: Vec<Arc<Member>> = serving.filter(|it| it.is_alive()).cloned().collect();
            let asked = there.iter().map(|member| self.digest_on(member, copies));
            let digests = join_all(asked).await;
            let at = |digest: &Result<Digest, DigestError>| {
                digest.as_ref().ok().map(|digest| (digest.lsn, digest.hash))
            };
            let first = digests.first().and_then(at);
            let agree = first.is_some() && digests.iter().all(|digest| at(digest) == first);
            if agree || self.shared().world.time.now() >= end {
                let names = there.iter().map(|member| member.record.name.clone());
                let ordinal = copies.id.ordinal;
                let copy =
                    |(node, digest)| CopyDigest { table: table.to_owned(), ordinal, node, digest };
                return names.zip(digests).map(copy).collect();
            }
            self.shared().world.time.sleep(PAUSE).await;
        }
    }

    async fn digest_on(&self, member: &Member, copies: &Copies) -> Result<Digest, DigestError> {
        if member.id == self.shared().members.own {
            return self.digest_here(copies).await;
        }
        let question = Question::Digest { partition: copies.id.into() };
        match member.link.ask(question, COPY_TIMEOUT, 0).await {
            Ok(Reply::Digest { lsn, hash, digest }) => {
                Ok(Digest { lsn, hash, digest, content: None })
            }
            Ok(Reply::Problem(Problem::NotHere(why))) => Err(DigestError::NotHere(why)),
            Ok(_) => Err(DigestError::NoDigest),
            Err(error) => Err(error.into()),
        }
    }

    /// The digest of this node's copy.
    pub(crate) async fn digest_here(&self, copies: &Copies) -> Result<Digest, DigestError> {
        let applier = self.shared().replication.groups.get(copies.group);
        applier.ok_or(DigestError::NotRead)?.digest(copies.id).await
    }
}
