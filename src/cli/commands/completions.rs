//! `playhouse completions`: what a shell needs to complete commands and flags. Needs no house and no folder.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::cli::args::{Cli, CompletionShell};
use crate::cli::exit::Exit;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::view::write_out;

/// Prints the script for a shell.
pub fn completions(shell: CompletionShell) -> Result<(), Exit> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "playhouse", &mut script);
    write_out(&String::from_utf8_lossy(&script)).map_err(|error| unwritten(&error))
}
