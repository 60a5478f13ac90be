//! What the standard library could have had, and little of it: nothing so far.
