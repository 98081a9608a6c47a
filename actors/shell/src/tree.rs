//! The second reader: tree-sitter's grammar of bash.

use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, Parser, Tree, TreeCursor};

use crate::lex::Simple;

/// How often the parser may report progress before it is stopped. It reports every hundred steps, so this bounds the
/// time without a clock.
const MAX_REPORTS: usize = 20_000;

/// What a plain line is made of, as the grammar calls it.
const PLAIN: [&str; 18] = [
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "word",
    "string",
    "string_content",
    "raw_string",
    "concatenation",
    "number",
    "redirected_statement",
    "file_redirect",
    "file_descriptor",
    "test_command",
    "unary_expression",
    "binary_expression",
    "test_operator",
];

/// What the grammar's scanner can remember of open here-documents, in bytes.
const MAX_HERE: usize = 900;

/// Parses a text; `None` if that takes too long or is more than the grammar can hold.
///
/// The grammar's scanner reads outside of its tables at some characters, and dies of it: it is shown letters in place of
/// everything that is not ASCII, as many as keep every byte where it is.
pub(super) fn parse(text: &str) -> Option<Tree> {
    // Each costs seven bytes and its delimiter, which is at most the rest of its line.
    let here = text.split("<<").skip(1).map(|after| 7 + after.lines().next().unwrap_or_default().len()).sum::<usize>();
    if here > MAX_HERE {
        return None;
    }
    let shown = |byte: u8| if matches!(byte, b'\t' | b'\n' | b' '..=b'~') { byte } else { b'x' };
    let bytes: Vec<u8> = text.bytes().map(shown).collect();
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut reports = 0_usize;
    let mut patience = |_: &tree_sitter::ParseState| {
        reports += 1;
        if reports > MAX_REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut patience);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

/// Whether the grammar sees the same commands with the same words, and nothing else.
pub(super) fn agrees(text: &str, simples: &[Simple]) -> bool {
    let Some(tree) = parse(text) else { return false };
    if tree.root_node().has_error() {
        return false;
    }
    let mut commands: Vec<TreeCommand> = Vec::new();
    let mut is_plain = true;
    visit(&tree, |node| {
        is_plain &= !node.is_named() || PLAIN.contains(&node.kind());
        match node.kind() {
            "command" => {
                commands.push(TreeCommand::Words(words(node).into_iter().map(|word| word.byte_range()).collect()))
            }
            "test_command" => commands.push(TreeCommand::Test(node.byte_range())),
            _ => {}
        }
    });
    is_plain && commands.len() == simples.len() && commands.iter().zip(simples).all(|(seen, simple)| seen.is(simple))
}

/// A command as the grammar sees it.
enum TreeCommand {
    Words(Vec<Range<usize>>),
    /// `[ … ]`, whose inside the grammar reads as an expression.
    Test(Range<usize>),
}

impl TreeCommand {
    fn is(&self, simple: &Simple) -> bool {
        match self {
            Self::Words(spans) => spans.iter().eq(simple.words.iter().map(|word| &word.span)),
            Self::Test(span) => {
                let ends = simple.words.first().zip(simple.words.last());
                ends.is_some_and(|(first, last)| {
                    first.text == "[" && span.start == first.span.start && span.end == last.span.end
                })
            }
        }
    }
}

/// The words of a command: its name and its arguments.
pub(super) fn words(command: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    let mut cursor = command.walk();
    let mut is_more = cursor.goto_first_child();
    while is_more {
        if matches!(cursor.field_name(), Some("name" | "argument")) {
            found.push(cursor.node());
        }
        is_more = cursor.goto_next_sibling();
    }
    found
}

/// Visits every node, parents first. It does not recurse, so no nesting is too deep.
pub(super) fn visit<'a>(tree: &'a Tree, mut each: impl FnMut(Node<'a>)) {
    let mut cursor = tree.walk();
    loop {
        each(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        if !onward(&mut cursor) {
            return;
        }
    }
}

fn onward(cursor: &mut TreeCursor<'_>) -> bool {
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}
