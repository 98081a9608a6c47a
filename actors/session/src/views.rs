//! What is made of journals for those who don't write them.

pub(crate) mod along;
pub(crate) mod reader;
pub(crate) mod summary;
pub(crate) mod verify;
