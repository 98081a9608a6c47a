//! The commands that can be read in a text that is not plain, for rules that refuse.

use std::collections::{HashSet, VecDeque};

use tree_sitter::Node;

use crate::name::file;
use crate::unwrap::{InnerCommand, inside, is_shell};
use crate::word::{Variables, raw, words};
use crate::{MAX_TEXT, rough, tree};

/// Texts within texts, and wrappers within wrappers, that are followed.
const MAX_DEPTH: usize = 6;
/// What is kept, in bytes. Outer commands come first, so what goes over it is deep inside.
const MAX_KEPT: usize = 4 * 1024 * 1024;

/// Whether a text may do more than the commands show that were read in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Everything that it runs was read, but for words.
    #[default]
    None,
    /// A part could not be parsed, or a name was given another meaning, or it talks to a device.
    Some,
}

/// Devices that a command may well write to.
const HARMLESS: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// Variables that decide which program runs or what is loaded into it, by how their names begin or end.
const DECIDING: [&str; 16] = [
    "PATH", "LD_", "DYLD_", "BASH_", "ENV", "SHELL", "IFS", "PROMPT_", "PS4", "GIT_", "PYTHON", "PERL", "RUBY",
    "NODE_", "EDITOR", "PAGER",
];

/// The commands in a text.
pub(super) fn of_text(text: &str) -> (Vec<Vec<String>>, Doubt) {
    let mut seen = Search::default();
    seen.waiting.push_back((InnerCommand::Text(text.to_owned()), 0));
    seen.run();
    (seen.found, seen.doubt)
}

/// These commands, and what is inside of them.
pub(super) fn of_argvs<'a>(argvs: impl Iterator<Item = &'a [String]>) -> Vec<Vec<String>> {
    let mut seen = Search::default();
    seen.waiting.extend(argvs.map(|argv| (InnerCommand::Argv(argv.to_vec()), 0)));
    seen.run();
    seen.found
}

#[derive(Default)]
struct Search {
    found: Vec<Vec<String>>,
    known: HashSet<Vec<String>>,
    kept: usize,
    waiting: VecDeque<(InnerCommand, usize)>,
    doubt: Doubt,
}

impl Search {
    fn run(&mut self) {
        while let Some((inner, depth)) = self.waiting.pop_front() {
            match inner {
                InnerCommand::Text(text) => self.text(&text, depth),
                InnerCommand::Argv(argv) => self.argv(argv, depth),
            }
            if self.kept > MAX_KEPT {
                self.doubt = Doubt::Some;
                break;
            }
        }
    }

    fn argv(&mut self, argv: Vec<String>, depth: usize) {
        let Some((program, rest)) = argv.split_first() else { return };
        if program.contains('/') {
            let short = [file(program).to_owned()].into_iter().chain(rest.iter().cloned()).collect();
            self.keep(short);
        }
        let inner = inside(&argv);
        if depth < MAX_DEPTH {
            self.waiting.extend(inner.into_iter().map(|inner| (inner, depth + 1)));
        } else if !inner.is_empty() {
            self.doubt = Doubt::Some;
        }
        self.keep(argv);
    }

    fn keep(&mut self, argv: Vec<String>) {
        if self.known.insert(argv.clone()) {
            self.kept += argv.iter().map(|word| word.len() + 1).sum::<usize>();
            self.found.push(argv);
        }
    }

    fn text(&mut self, text: &str, depth: usize) {
        let parsed = if text.len() > MAX_TEXT { None } else { tree::parse(text) };
        if parsed.as_ref().is_none_or(|tree| tree.root_node().has_error()) {
            self.doubt = Doubt::Some;
            for argv in rough::commands(text) {
                self.argv(argv, depth);
            }
        }
        let Some(tree) = parsed else { return };
        let mut variables = Variables::new();
        tree::visit(&tree, |node| match node.kind() {
            "variable_assignment" => {
                assign(node, text, &mut variables);
                let name = node.child_by_field_name("name").map(|name| raw(name, text)).unwrap_or_default();
                if DECIDING.iter().any(|known| name.starts_with(known) || name.ends_with(known)) {
                    self.doubt = Doubt::Some;
                }
            }
            // From here on a name means something else.
            "function_definition" => self.doubt = Doubt::Some,
            "file_redirect" => {
                let to = node.child_by_field_name("destination").map(|to| raw(to, text)).unwrap_or_default();
                let to = to.replace(['\'', '"', '\\'], "");
                if to.starts_with("/dev/") && !HARMLESS.contains(&to.as_str()) {
                    self.doubt = Doubt::Some;
                }
            }
            _ => {}
        });
        let mut commands: Vec<Vec<String>> = Vec::new();
        // What a shell may be given to read.
        let mut inputs: Vec<String> = Vec::new();
        tree::visit(&tree, |node| match node.kind() {
            "command" => {
                let nodes = tree::words(node).into_iter();
                let argv: Vec<String> = nodes.flat_map(|node| words(node, text, &variables)).collect();
                let argv: Vec<String> = argv.into_iter().skip_while(String::is_empty).collect();
                if argv.first().is_some_and(|name| matches!(file(name), "echo" | "printf")) {
                    inputs.push(argv.get(1..).unwrap_or_default().join(" "));
                }
                commands.push(argv);
            }
            "heredoc_body" => inputs.push(raw(node, text).to_owned()),
            "herestring_redirect" => {
                let mut cursor = node.walk();
                let literals = node.named_children(&mut cursor);
                inputs.extend(literals.map(|node| words(node, text, &variables).join(" ")));
            }
            _ => {}
        });
        let has_shell = commands.iter().any(|argv| argv.first().is_some_and(|name| is_shell(name)));
        for argv in commands {
            self.argv(argv, depth);
        }
        if has_shell && depth < MAX_DEPTH {
            self.waiting.extend(inputs.into_iter().map(|input| (InnerCommand::Text(input), depth + 1)));
        }
    }
}

/// Remembers what a variable is given.
fn assign(node: Node<'_>, text: &str, variables: &mut Variables) {
    let (Some(name), Some(value)) = (node.child_by_field_name("name"), node.child_by_field_name("value")) else {
        return;
    };
    let value = words(value, text, &Variables::new()).join(" ");
    // Long ones would be put in again and again.
    if value.len() <= 1_024 {
        variables.insert(raw(name, text).to_owned(), value);
    }
}
