//! A walk over rows with changes on top of them.

use std::ops::ControlFlow;

use crate::rows::{StoreError, Visit};

/// Is shown a row's key and value, `None` where it is gone, and says whether to go on.
pub(super) type Show<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()>;

/// Shows the rows that `walk` shows and `changed`, which is in order, in the place of those of the
/// same keys.
pub(super) fn walk_merged<'a>(
    changed: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    show: Show<'_>,
    walk: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut changed = changed.peekable();
    let mut flow = ControlFlow::Continue(());
    walk(&mut |key, value| {
        while let Some((at, change)) = changed.next_if(|(at, _)| *at < key) {
            flow = show(at, change);
            if flow.is_break() {
                return flow;
            }
        }
        flow = match changed.next_if(|(at, _)| *at == key) {
            Some((at, change)) => show(at, change),
            None => show(key, Some(value)),
        };
        flow
    })?;
    for (at, change) in changed {
        if flow.is_break() {
            break;
        }
        flow = show(at, change);
    }
    Ok(())
}
