//! Documents written: checked against the mapping, which grows where it is dynamic, and sent to
//! the leads of their partitions. Conditions are evaluated at apply, not here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use plimsoll_index::Error;
use plimsoll_storage::Reply;
use plimsoll_storage::operation::{
    self as stored, Condition, DocumentOutcome, DocumentResult, Operation,
};

use super::service::Documents;
use super::types::{WriteKind, WriteRequest, WriteResult, Written};
use crate::metadata::index::{IndexMetadata, no_such_index};
use crate::replication::lead::Step;
use crate::replication::tables::Table;
use crate::wire::write_error::{failed, failed_write};

/// The longest id, bytes. Elasticsearch's.
const ID_BYTES_MAX: usize = 512;
/// Where a submission to a lead is cut, bytes.
const BATCH_BYTES: usize = 1 << 20;
/// How often documents are checked again because another change of the mapping came between.
const MAPPING_ATTEMPTS_MAX: u32 = 5;

impl Documents {
    /// Carries out writes, those of one document in their order; each has an outcome of its own,
    /// in the order of `writes`.
    pub async fn write_documents(
        &self,
        index: &Arc<IndexMetadata>,
        writes: Vec<WriteRequest>,
    ) -> Vec<Result<Written, Error>> {
        let Some(table) = self.router.tables.by_name(&index.name) else {
            return writes.iter().map(|_| Err(no_such_index(&index.name))).collect();
        };
        if table.follows().is_some() {
            return writes.iter().map(|_| Err(blocked(&index.name))).collect();
        }
        let mut outcomes: Vec<Option<Result<Written, Error>>> = vec![None; writes.len()];
        let version = self.check(&table, &writes, &mut outcomes).await;
        let mut parts: BTreeMap<usize, Vec<(Sent, Bytes)>> = BTreeMap::new();
        for (at, write) in writes.into_iter().enumerate() {
            if outcomes.get(at).is_some_and(Option::is_some) {
                continue;
            }
            let key = Bytes::from(write.routing.clone().unwrap_or_else(|| write.id.clone()));
            let ordinal = table.ordinal_of(&key);
            let sent = Sent { at, id: write.id.clone(), condition: write.condition };
            let payload = Operation::Document(operation(key, write, version)).encode();
            parts.entry(ordinal).or_default().push((sent, payload));
        }
        let written =
            parts.into_iter().map(|(ordinal, part)| self.write_part(&table, ordinal, part));
        for (at, outcome) in join_all(written).await.into_iter().flatten() {
            if let Some(slot) = outcomes.get_mut(at) {
                *slot = Some(outcome);
            }
        }
        let unanswered = || Err(Error::internal("the write was not answered"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(unanswered)).collect()
    }

    /// Checks documents against the mapping, and has it grow where that is due: the version that
    /// all of them fit.
    async fn check(
        &self,
        table: &Table,
        writes: &[WriteRequest],
        outcomes: &mut [Option<Result<Written, Error>>],
    ) -> u64 {
        if self.router.replication.is_room_low()
            && let Err(refusal) = self.router.replication.room.check()
        {
            let refused = |write: &WriteRequest| !matches!(write.action, WriteKind::Delete);
            for (_, outcome) in writes.iter().zip(outcomes.iter_mut()).filter(|(it, _)| refused(it))
            {
                *outcome = Some(Err(failed(refusal.clone())));
            }
        }
        for attempt in 0..MAPPING_ATTEMPTS_MAX {
            let Some(index) = table.index() else { break };
            let mut mapping = index.mapping.clone();
            let mut is_grown = false;
            let open = writes.iter().zip(outcomes.iter_mut()).filter(|(_, it)| it.is_none());
            for (write, outcome) in open {
                let grown = check_id(&write.id).and_then(|()| match write.action {
                    WriteKind::Delete => Ok(None),
                    WriteKind::Index | WriteKind::Create => mapping.check(&write.id, &write.source),
                });
                match grown.and_then(|delta| delta.map(|it| mapping.merge(&it)).transpose()) {
                    Ok(Some(grown)) => {
                        mapping = grown;
                        is_grown = true;
                    }
                    Ok(None) => {}
                    Err(error) => *outcome = Some(Err(error)),
                }
            }
            if !is_grown {
                return index.mapping_version;
            }
            match self.put_mapping(&index.name, &mapping.to_json()).await {
                Ok(grown) => return grown.mapping_version,
                // Another writer gave a field another type: the documents are judged anew.
                Err(error) if attempt + 1 == MAPPING_ATTEMPTS_MAX || error.class.is_the_nodes() => {
                    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
                        *outcome = Some(Err(error.clone()));
                    }
                }
                Err(_) => {}
            }
        }
        0
    }

    async fn write_part(
        &self,
        table: &Table,
        ordinal: usize,
        part: Vec<(Sent, Bytes)>,
    ) -> Vec<(usize, Result<Written, Error>)> {
        let wanted = table.index().map_or(1, |index| self.changes.wanted_replicas(&index) + 1);
        let (copies, mut session) =
            (&table.copies()[ordinal], self.router.replication.sessions.session());
        let mut outcomes = Vec::with_capacity(part.len());
        let mut rest = part.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut sent, mut steps, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((write, payload)) = rest
                .next_if(|(_, payload)| steps.is_empty() || bytes + payload.len() <= BATCH_BYTES)
            {
                bytes += payload.len();
                sent.push(write);
                steps.push(Step::Write(payload));
            }
            match self.router.submit(copies, &mut session, steps).await {
                Ok(replies) => {
                    let partition = u32::try_from(ordinal).unwrap_or(u32::MAX);
                    let counts = self.router.counts(table, ordinal, wanted);
                    let answered = sent.iter().zip(&replies);
                    outcomes.extend(answered.map(|(write, reply)| {
                        (write.at, written(reply, write, partition, counts))
                    }));
                }
                Err(error) => {
                    // Whether it ran in an index that is gone makes no difference.
                    let error = match self.router.is_gone(copies) {
                        true => no_such_index(table.name()),
                        false => failed_write(error),
                    };
                    outcomes.extend(sent.iter().map(|write| (write.at, Err(error.clone()))));
                }
            }
        }
        outcomes
    }
}

fn operation(key: Bytes, write: WriteRequest, mapping_version: u64) -> stored::DocumentWrite {
    let action = match write.action {
        WriteKind::Index => stored::Action::Index(write.source),
        WriteKind::Create => stored::Action::Create(write.source),
        WriteKind::Delete => stored::Action::Delete,
    };
    let (id, condition) = (Bytes::from(write.id), write.condition);
    stored::DocumentWrite { key, id, action, condition, mapping_version }
}

fn check_id(id: &str) -> Result<(), Error> {
    let problem = if id.is_empty() {
        "if _id is specified it must not be empty".to_owned()
    } else if id.len() > ID_BYTES_MAX {
        let bytes = id.len();
        format!(
            "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {bytes}"
        )
    } else {
        return Ok(());
    };
    let reason = format!("Validation Failed: 1: {problem};");
    Err(Error::invalid("action_request_validation_exception", reason))
}

fn written(
    reply: &Reply,
    write: &Sent,
    partition: u32,
    copies: (u32, u32),
) -> Result<Written, Error> {
    if let Reply::Error(error) = reply {
        return Err(failed(error.clone()));
    }
    match DocumentOutcome::from_reply(reply) {
        Some(DocumentOutcome::Done { result, version, seq_no }) => {
            let result = match result {
                DocumentResult::Created => WriteResult::Created,
                DocumentResult::Updated | DocumentResult::Noop => WriteResult::Updated,
                DocumentResult::Deleted => WriteResult::Deleted,
                DocumentResult::NotFound => WriteResult::NotFound,
            };
            Ok(Written { result, version, seq_no, partition, copies })
        }
        Some(DocumentOutcome::Conflict { present }) => Err(write.conflict(present)),
        None => Err(Error::internal("the write's answer is unreadable")),
    }
}

/// What of a write is needed to say why it was not done.
struct Sent {
    at: usize,
    id: String,
    condition: Condition,
}

impl Sent {
    /// The condition that does not hold, in Elasticsearch's words.
    fn conflict(&self, present: Option<stored::Present>) -> Error {
        let id = &self.id;
        let there = present.filter(|present| !present.is_deleted);
        let why = match (self.condition, there) {
            (Condition::None, _) => {
                let version = present.map_or(0, |present| present.version);
                format!("document already exists (current version [{version}])")
            }
            (Condition::IfSequence { seq_no, primary_term }, Some(there)) => format!(
                "required seqNo [{seq_no}], primary term [{primary_term}]. current document has \
                 seqNo [{}] and primary term [{}]",
                there.seq_no,
                stored::PRIMARY_TERM
            ),
            (Condition::IfSequence { seq_no, primary_term }, None) => format!(
                "required seqNo [{seq_no}], primary term [{primary_term}]. but no document was \
                 found"
            ),
            (Condition::External(given), _) => format!(
                "current version [{}] is higher or equal to the one provided [{given}]",
                present.map_or(0, |present| present.version)
            ),
            (Condition::ExternalGte(given), _) => format!(
                "current version [{}] is higher than the one provided [{given}]",
                present.map_or(0, |present| present.version)
            ),
        };
        let reason = format!("[{id}]: version conflict, {why}");
        Error::conflict("version_conflict_engine_exception", reason)
    }
}

/// 403: an index that follows takes its leader's writes alone. OpenSearch's words.
pub(crate) fn blocked(name: &str) -> Error {
    let reason = format!(
        "index [{name}] blocked by: [FORBIDDEN/1000/index read-only(cross-cluster-replication)];"
    );
    Error::forbidden("cluster_block_exception", reason)
}
