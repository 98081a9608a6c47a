//! The tools that every agent can have.

mod bash;
mod edit_file;
mod list_files;
mod parallel;
mod read_file;
mod search;
mod write_file;

use std::sync::Arc;

pub use bash::Bash;
pub use edit_file::EditFile;
pub use list_files::ListFiles;
pub use read_file::{ReadFile, picture};
pub use search::Search;
pub use write_file::WriteFile;

use crate::tool::Tool;

/// The tools an agent has unless it is told otherwise: `read_file`, `list_files`, `search`, `edit_file`, `write_file`
/// and `bash`.
pub fn default_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(ListFiles),
        Arc::new(Search),
        Arc::new(EditFile),
        Arc::new(WriteFile),
        Arc::new(Bash::default()),
    ]
}
