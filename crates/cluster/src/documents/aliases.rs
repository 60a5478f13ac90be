//! Other names of indices: what may be changed of them, and changing it. How a name is read in a request is the
//! front end's.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::catalog::{check_name, name_is_index};
use super::service::Documents;
use super::types::AliasAction;
use crate::metadata::index::no_such_index;

/// Whether writes to an alias go to the index of which this says what the alias is.
fn is_write(body: &Map<String, Value>) -> bool {
    body.get("is_write_index") == Some(&json!(true))
}

impl Documents {
    /// Carries out changes of aliases in their order; all are checked before the first.
    ///
    /// # Errors
    /// Where an index or alias is not there, an alias has the name of an index, or would have two write indices.
    pub async fn update_aliases(&self, actions: Vec<AliasAction>) -> Result<(), Error> {
        for action in &actions {
            self.check_alias_action(action, &actions)?;
        }
        self.check_write_indices(&actions)?;
        let (removed, rest): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|it| matches!(it, AliasAction::RemoveIndex { .. }));
        for action in removed.into_iter().chain(rest) {
            match action {
                AliasAction::Add { index, alias, body } => {
                    let changed = self.change_index(&index, |documents| {
                        documents.aliases.insert(alias.clone(), body.clone());
                        Ok(())
                    });
                    changed.await?;
                }
                AliasAction::Remove { index, alias } => {
                    let changed = self.change_index(&index, |documents| {
                        documents.aliases.remove(&alias);
                        Ok(())
                    });
                    changed.await?;
                }
                AliasAction::RemoveIndex { index } => self.delete_index(&index).await?,
            }
        }
        Ok(())
    }

    /// The aliases of an index that is to be created.
    ///
    /// # Errors
    /// Where one has the name of an index, or would have two write indices.
    pub(super) fn check_first_aliases(
        &self,
        index: &str,
        aliases: &BTreeMap<String, Map<String, Value>>,
    ) -> Result<(), Error> {
        if let Some(alias) = aliases.keys().find(|it| *it == index || self.index(it).is_some()) {
            return Err(name_is_index(alias));
        }
        let add = |(alias, body): (&String, &Map<String, Value>)| AliasAction::Add {
            index: index.to_owned(),
            alias: alias.clone(),
            body: body.clone(),
        };
        self.check_write_indices(&aliases.iter().map(add).collect::<Vec<_>>())
    }

    /// An alias has one write index at the most, once all is done.
    fn check_write_indices(&self, actions: &[AliasAction]) -> Result<(), Error> {
        for action in actions {
            let AliasAction::Add { alias, body, .. } = action else { continue };
            if !is_write(body) {
                continue;
            }
            let of = self.write_indices(alias, actions);
            if of.len() > 1 {
                let names = of.into_iter().collect::<Vec<_>>().join(",");
                let reason = format!("alias [{alias}] has more than one write index [{names}]");
                return Err(Error::illegal_argument(reason));
            }
        }
        Ok(())
    }

    /// Which indices say that an alias writes to them, once all is done.
    fn write_indices(&self, alias: &str, actions: &[AliasAction]) -> BTreeSet<String> {
        let mut of: BTreeSet<String> = self
            .indices()
            .into_iter()
            .filter(|index| index.aliases.get(alias).is_some_and(is_write))
            .map(|index| index.name.clone())
            .collect();
        for action in actions {
            match action {
                AliasAction::Add { index, alias: name, body } if name == alias => {
                    if is_write(body) {
                        of.insert(index.clone());
                    } else {
                        of.remove(index);
                    }
                }
                AliasAction::Remove { index, alias: name } if name == alias => {
                    of.remove(index);
                }
                AliasAction::RemoveIndex { index } => {
                    of.remove(index);
                }
                AliasAction::Add { .. } | AliasAction::Remove { .. } => {}
            }
        }
        of
    }

    fn check_alias_action(&self, action: &AliasAction, all: &[AliasAction]) -> Result<(), Error> {
        // An alias may take the name of an index that goes in the same request.
        let goes = |name: &str| {
            all.iter().any(|it| matches!(it, AliasAction::RemoveIndex { index } if index == name))
        };
        let (AliasAction::Add { index, .. }
        | AliasAction::Remove { index, .. }
        | AliasAction::RemoveIndex { index }) = action;
        let found = self.index(index).ok_or_else(|| no_such_index(index))?;
        if self.is_follower(index) && !matches!(action, AliasAction::RemoveIndex { .. }) {
            return Err(Error::illegal_argument(format!(
                "can't modify aliases on indices [{index}]; aliases of following indices are \
                 self-replicated from their leader indices"
            )));
        }
        match action {
            AliasAction::Add { alias, .. } if self.index(alias).is_some() && !goes(alias) => {
                Err(name_is_index(alias))
            }
            AliasAction::Add { alias, .. } => check_name(alias),
            AliasAction::Remove { alias, .. } if !found.aliases.contains_key(alias) => {
                let reason = format!("aliases [{alias}] missing");
                Err(Error::not_found("aliases_not_found_exception", reason))
            }
            _ => Ok(()),
        }
    }
}
