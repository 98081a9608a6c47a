//! Work that waits, outside of handlers, and ends with its owner.

pub(crate) use playhouse_supervision::Task;
