//! Another server than the lab's own: any that speaks Elasticsearch's REST, or Redis' protocol. The
//! lab loads a corpus there, runs the workload of the experiment, switches what that server lets it
//! switch while it runs, and takes away what it made. It does nothing to that server's machine: a
//! sick node has to be there already. It ends with one sentence about what that node costs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::context::{Arm, Context, Stopping, TIMEOUT, comparisons, variants};
use super::corpus::{Corpus, Shape};
use super::found::Found;
use super::load::{self, Load, Pace, Requests, Taken};
use super::measure::Measured;
use super::wire::{Connection, Protocol, command};
use super::workload::{self, Operation};
use super::{cluster, measure, method, node};
use crate::LabError;
use crate::result::{Conditions, FaultNote, Lap, LoadNote, NodeLap, Scenario, Variant, over_laps};
use crate::sim::derive;
use crate::stats;

const INDEX: &str = "plimsoll-lab";
const PLACES: usize = 60_000;
const TERMS: usize = 200;
const CLIENTS: usize = 16;
const SHARDS: usize = 5;
/// Reads of the mix over RESP, and how large its values are.
const READS: f64 = 0.9;
const VALUE_BYTES: usize = 1_000;
const KEYS: &str = "plimsoll-lab:";
const SWITCH: &str = "cluster.routing.use_adaptive_replica_selection";
const RULE: &str = "cluster.routing.replica_selection";

/// A server by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) address: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

impl Target {
    /// `http://host:port` or `redis://host:port`.
    ///
    /// # Errors
    /// Anything else, and what this generator does not speak.
    pub(crate) fn parse(url: &str) -> Result<Self, LabError> {
        let bad = |why: &str| LabError::Target { url: url.to_owned(), why: why.to_owned() };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(bad("it has to begin with http:// or redis://"));
        };
        let (protocol, port) = match scheme {
            "http" => (Protocol::Http, 9_200),
            "redis" => (Protocol::Resp, 6_379),
            "https" | "rediss" => return Err(bad("TLS is not spoken here; use a proxy")),
            _ => return Err(bad("it has to begin with http:// or redis://")),
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '@', '?']) {
            return Err(bad("a host and a port are taken, without a path or a user"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        Ok(Self { protocol, address })
    }

    /// Asks its REST.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, LabError> {
        node::ask(&self.address, method, path, body, TIMEOUT)
    }

    /// Counters of all its nodes; what it does not say is not there.
    pub(crate) fn counters(&self) -> BTreeMap<String, NodeLap> {
        match self.protocol {
            Protocol::Http => self
                .ask("GET", "/_nodes/stats/thread_pool,process", None)
                .map_or_else(|_| BTreeMap::new(), |stats| node_counters(&stats)),
            Protocol::Resp => {
                let told = Connection::open(&self.address, Protocol::Resp, TIMEOUT)
                    .and_then(|mut open| open.ask(&command(&[b"INFO", b"cpu"])).map(|_| open.body));
                let text = told.map(|body| String::from_utf8_lossy(&body).into_owned());
                let lap =
                    NodeLap { cpu_s: info_cpu_s(&text.unwrap_or_default()), ..NodeLap::default() };
                BTreeMap::from([(self.address.clone(), lap)])
            }
        }
    }
}

/// What each node did between two readings of [`Target::counters`].
pub(crate) fn node_laps(
    before: &BTreeMap<String, NodeLap>,
    after: &BTreeMap<String, NodeLap>,
) -> Vec<NodeLap> {
    let one = |(name, now): (&String, &NodeLap)| {
        let was = before.get(name).cloned().unwrap_or_default();
        NodeLap {
            name: name.clone(),
            completed: now.completed.saturating_sub(was.completed),
            rejected: now.rejected.saturating_sub(was.rejected),
            cpu_s: now.cpu_s.zip(was.cpu_s).map(|(now, was)| (now - was).max(0.0)),
            ..NodeLap::default()
        }
    };
    after.iter().map(one).collect()
}

/// Nodes by name: searches completed and rejected, processor time.
fn node_counters(stats: &Value) -> BTreeMap<String, NodeLap> {
    let nodes = stats["nodes"].as_object().into_iter().flatten();
    let one = |(id, node): (&String, &Value)| {
        let pool = &node["thread_pool"]["search"];
        let name = node["name"].as_str().unwrap_or(id).to_owned();
        let lap = NodeLap {
            name: name.clone(),
            completed: pool["completed"].as_u64().unwrap_or(0),
            rejected: pool["rejected"].as_u64().unwrap_or(0),
            cpu_s: node["process"]["cpu"]["total_in_millis"].as_f64().map(|ms| ms / 1e3),
            ..NodeLap::default()
        };
        (name, lap)
    };
    nodes.map(one).collect()
}

/// Processor time by Redis' own account.
fn info_cpu_s(text: &str) -> Option<f64> {
    let of = |name: &str| {
        let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        row.and_then(|value| value.trim().parse::<f64>().ok())
    };
    Some(of("used_cpu_sys")? + of("used_cpu_user")?)
}

/// The arms that this server lets one switch between; one where there is nothing to switch.
fn arms(target: &Target) -> Vec<Arm> {
    let arm = |name: &str, settings: &[(&str, Value)]| Arm {
        name: name.to_owned(),
        settings: settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
    };
    let takes = |arm: &Arm| cluster::set(&target.address, &arm.settings).is_ok();
    let off = arm("off", &[(SWITCH, json!(false))]);
    if target.protocol == Protocol::Resp || !takes(&off) {
        return vec![arm("as it is", &[])];
    }
    let mut all = vec![off, arm("on", &[(SWITCH, json!(true))])];
    let rules = ["c3", "ours"].map(|rule| arm(rule, &[(SWITCH, json!(true)), (RULE, json!(rule))]));
    if rules.iter().all(takes) {
        // The default is one of them.
        all.truncate(1);
        all.extend(rules);
    }
    all
}

/// Runs the workload against the server; what there is when it is stopped.
pub(crate) fn run(
    context: &mut Context<'_>,
    target: &Target,
    found: &mut Found,
) -> Result<(), LabError> {
    let corpus = Corpus::of_seed(Shape::Places, PLACES, context.options.seed);
    let requests = match target.protocol {
        Protocol::Http => {
            context.progress.note(&format!("loading {PLACES} documents into {INDEX}"));
            load_http(context, target, &corpus)?;
            let operation = Operation::Complex { terms: TERMS };
            workload::requests(operation, &corpus, INDEX, &target.address, context.options.seed)
        }
        Protocol::Resp => workload::rows(KEYS, VALUE_BYTES, READS),
    };
    let arms = arms(target);
    context.expect(context.laps() * arms.len());
    let sick = sick(target);
    let laps = laps(context, target, &arms, &requests);
    let cleared = clear(target, &arms);
    let laps = laps?;
    let what = if target.protocol == Protocol::Http { "complex-query" } else { "rows" };
    found.results.scenarios.push(Scenario {
        name: what.to_owned(),
        fault: FaultNote { kind: "as it is".to_owned(), fit: BTreeMap::new() },
        load: LoadNote::Clients(CLIENTS),
        variants: variants(&arms, &laps, None),
    });
    let seed = context.options.seed;
    let compared = comparisons(what, &arms, &laps, seed, |_, _, _| Vec::new());
    found.results.comparisons.extend(compared);
    let series = arms.iter().zip(&laps);
    found.plots.series.extend(series.filter_map(|(a, l)| measure::series(what, &a.name, l)));
    if let Some(scenario) = found.results.scenarios.first() {
        context.conclude(sentence(&target.address, sick.as_deref(), &scenario.variants));
    }
    cleared
}

/// Loads the corpus; with copies where there are nodes for them.
fn load_http(context: &mut Context<'_>, target: &Target, corpus: &Corpus) -> Result<(), LabError> {
    let exists = target.ask("GET", &format!("/{INDEX}"), None).is_ok();
    if exists {
        let why = format!("index {INDEX} is there already; delete it if it is the lab's");
        return Err(LabError::live(format!("load {}", target.address), why));
    }
    let health = target.ask("GET", "/_cluster/health", None)?;
    let nodes = health["number_of_data_nodes"].as_u64().unwrap_or(1);
    if nodes < 2 {
        context.note("one data node: there are no copies to choose between".to_owned());
    }
    let loaded = cluster::load(&target.address, INDEX, corpus, SHARDS, usize::from(nodes > 1));
    if loaded.is_err() {
        let _ = target.ask("DELETE", &format!("/{INDEX}"), None);
    }
    loaded
}

/// Takes away what the lab made there, and gives the settings back.
fn clear(target: &Target, arms: &[Arm]) -> Result<(), LabError> {
    match target.protocol {
        Protocol::Http => {
            let keys = arms.iter().flat_map(|arm| arm.settings.keys().cloned());
            let defaults: BTreeMap<String, Value> = keys.map(|key| (key, Value::Null)).collect();
            if !defaults.is_empty() {
                cluster::set(&target.address, &defaults)?;
            }
            target.ask("DELETE", &format!("/{INDEX}"), None).map(|_| ())
        }
        Protocol::Resp => {
            let failed = |error| LabError::live("delete the lab's keys".to_owned(), error);
            let mut open =
                Connection::open(&target.address, Protocol::Resp, TIMEOUT).map_err(failed)?;
            for number in 0..workload::KEYS {
                let key = format!("{KEYS}{number}");
                open.ask(&command(&[b"DEL", key.as_bytes()])).map_err(failed)?;
            }
            Ok(())
        }
    }
}

/// The node that a coordinator waits for longest, where the server says so.
fn sick(target: &Target) -> Option<String> {
    if target.protocol == Protocol::Resp {
        return None;
    }
    let stats = target.ask("GET", "/_nodes/stats/adaptive_selection", None).ok()?;
    slowest(&stats)
}

/// By the mean of what all nodes say of one; named only if it is twice as slow as the next.
fn slowest(stats: &Value) -> Option<String> {
    let mut seen: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for node in stats["nodes"].as_object()?.values() {
        for (id, of) in node["adaptive_selection"].as_object().into_iter().flatten() {
            seen.entry(id).or_default().extend(of["avg_response_time_ns"].as_f64());
        }
    }
    let mut means: Vec<(f64, &str)> =
        seen.iter().map(|(id, all)| (stats::mean(all), *id)).collect();
    means.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (first, next) = (means.first()?, means.get(1)?);
    let name = stats["nodes"][first.1]["name"].as_str().unwrap_or(first.1);
    (first.0 > 2.0 * next.0).then(|| name.to_owned())
}

fn laps(
    context: &mut Context<'_>,
    target: &Target,
    arms: &[Arm],
    requests: &Requests,
) -> Result<Vec<Vec<Measured>>, LabError> {
    let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
    for block in 0..context.laps() {
        for at in method::order(arms.len(), block) {
            if context.is_stopped() {
                return Ok(all);
            }
            if !arms[at].settings.is_empty() {
                cluster::set(&target.address, &arms[at].settings)?;
            }
            let lap = lap(context, target, requests, block)?;
            all[at].push(lap);
            context.step(&format!("{} lap {}", arms[at].name, block + 1));
        }
    }
    Ok(all)
}

/// One lap. Counters are taken at the ends of the whole, warm-up included: another machine's clock
/// cannot be asked for in the middle of the load.
fn lap(
    context: &Context<'_>,
    target: &Target,
    requests: &Requests,
    block: usize,
) -> Result<Measured, LabError> {
    let addresses = [target.address.clone()];
    let load = Load {
        addresses: &addresses,
        protocol: target.protocol,
        greeting: b"",
        requests,
        pace: Pace::Closed { clients: CLIENTS },
        warm_up: Duration::ZERO,
        window: context.options.warm_up + context.options.window,
        timeout: TIMEOUT,
        seed: derive(context.options.seed, block as u64),
    };
    let watch = Stopping(Arc::clone(&context.options.stop));
    let before = target.counters();
    let taken = load::run(&load, &watch)
        .map_err(|error| LabError::live("start the load".to_owned(), error))?;
    let after = target.counters();
    let nodes = node_laps(&before, &after);
    let late_ms = taken.late_us.value_at_quantile(0.99) as f64 / 1e3;
    let conditions = Conditions { generator_late_ms: late_ms, ..Conditions::default() };
    let reason = match context.is_stopped() {
        true => Some(measure::STOPPED.to_owned()),
        false => measure::disturbance(&conditions),
    };
    let lap = Lap {
        cpu_s: nodes.iter().map(|node| node.cpu_s).sum::<Option<f64>>().filter(|s| *s > 0.0),
        nodes,
        ..measure::of_load(&taken, conditions, reason)
    };
    let Taken { latency_us, service_us, .. } = taken;
    Ok(Measured { lap, latency_us, service_us, block })
}

/// What the sick node costs, in plain words.
fn sentence(address: &str, sick: Option<&str>, variants: &[Variant]) -> String {
    let p99 = |of: &Variant| {
        over_laps(of, "latency_ms.p99").map_or("n/a".to_owned(), |ms| format!("{ms:.0} ms"))
    };
    let cpu = |of: &Variant| {
        let told = over_laps(of, "cpu_s_per_op").map(|s| format!("{:.2}", s * 1e3));
        told.unwrap_or("n/a".to_owned())
    };
    let (Some(first), last) = (variants.first(), variants.last()) else {
        return format!("{address}: nothing was measured.");
    };
    let Some(last) = last.filter(|last| last.name != first.name) else {
        return format!(
            "{address} lets nothing be switched, so that there is nothing to compare: p99 is {} and \
             1,000 requests take {} CPU seconds.",
            p99(first),
            cpu(first)
        );
    };
    match sick {
        Some(name) => format!(
            "At {address} {name} is sick, and it costs this much without selection ({}): p99 {} \
             instead of {}, and {} CPU seconds per 1,000 requests instead of {} ({}).",
            first.name,
            p99(first),
            p99(last),
            cpu(first),
            cpu(last),
            last.name
        ),
        None => format!(
            "At {address} no node stands out as sick: p99 is {} without selection ({}) and {} with \
             it ({}), at {} and {} CPU seconds per 1,000 requests.",
            p99(first),
            first.name,
            p99(last),
            last.name,
            cpu(first),
            cpu(last)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Pooled, Quantiles};

    #[test]
    fn urls_are_taken_or_refused_with_a_reason() {
        let of = |url: &str| Target::parse(url).map_err(|error| error.to_string());
        assert_eq!(of("http://10.0.0.1:9201/").unwrap().address, "10.0.0.1:9201");
        let redis = of("redis://cache").unwrap();
        assert_eq!((redis.protocol, redis.address.as_str()), (Protocol::Resp, "cache:6379"));
        for (url, why) in [
            ("https://x", "TLS"),
            ("localhost:9200", "begin with"),
            ("ftp://x", "begin with"),
            ("http://u:p@x", "without a path or a user"),
            ("http://", "a host"),
        ] {
            assert!(of(url).unwrap_err().contains(why), "{url}");
        }
    }

    #[test]
    fn counters_are_read_as_all_servers_say_them() {
        let stats = json!({ "nodes": { "id1": { "name": "a",
            "thread_pool": { "search": { "completed": 7, "rejected": 2 } },
            "process": { "cpu": { "total_in_millis": 1500 } } } } });
        let found = node_counters(&stats);
        assert_eq!((found["a"].completed, found["a"].rejected), (7, 2));
        assert_eq!(found["a"].cpu_s, Some(1.5));
        let info = "# CPU\r\nused_cpu_sys:1.25\r\nused_cpu_user:2.50\r\n";
        assert_eq!((info_cpu_s(info), info_cpu_s("")), (Some(3.75), None));
    }

    #[test]
    fn only_a_node_that_stands_out_is_called_sick() {
        let stats = |slow: u64| {
            let of = |ns: u64| json!({ "avg_response_time_ns": ns });
            json!({ "nodes": {
                "i": { "name": "a", "adaptive_selection": { "i": of(10), "j": of(slow) } },
                "j": { "name": "b", "adaptive_selection": { "i": of(12), "j": of(slow) } } } })
        };
        assert_eq!(slowest(&stats(500)).as_deref(), Some("b"));
        assert_eq!(slowest(&stats(15)), None);
        assert_eq!(slowest(&json!({})), None);
    }

    #[test]
    fn the_sentence_says_what_was_compared() {
        let variant = |name: &str, p99: f64, cpu_s: f64| Variant {
            name: name.to_owned(),
            settings: BTreeMap::new(),
            laps: Vec::new(),
            pooled: Some(Pooled {
                latency_ms: Quantiles { p99: Some(p99), ..Quantiles::default() },
                cpu_s_per_op: Some(cpu_s),
                ..Pooled::default()
            }),
        };
        let both = [variant("off", 812.0, 0.004), variant("on", 90.0, 0.003)];
        let said = sentence("h:1", Some("es3"), &both);
        assert!(said.contains("p99 812 ms instead of 90 ms, and 4.00 CPU seconds"), "{said}");
        let said = sentence("h:1", None, &both);
        assert!(said.contains("no node stands out as sick: p99 is 812 ms without"), "{said}");
        assert!(sentence("h:1", None, &both[..1]).contains("lets nothing be switched"));
        assert!(sentence("h:1", None, &[]).contains("nothing was measured"));
    }
}
