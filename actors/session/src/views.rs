//! What is made of journals for those who don't write them.

pub(crate) mod along;
pub(crate) mod reader;
pub mod summary;
pub mod verify;
