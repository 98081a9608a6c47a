//! JSON Schema for the arguments of tools and the answers of models: whether a value fits, and what is wrong with it.
//!
//! Schemas come from anywhere, so the keywords of the drafts 4, 6, 7, 2019-09 and 2020-12 count, whichever of them a schema
//! names: `items` may be a list, `exclusiveMinimum` a boolean, `dependencies` are there beside `dependentRequired`. Only
//! what stands beside a `$ref` depends on the draft: up to draft 7 it does not count.
//!
//! - Nothing is fetched. A `$ref` that leads out of the schema is an error when the schema is read, and so are
//!   `$dynamicRef` and `$recursiveRef`, whose target depends on who refers.
//! - `format` and `content…` are notes, as in the later drafts: no value is refused for them.
//! - `pattern` is as ECMAScript has it, look-around included, with a bound on how long one may search.
//! - Other keywords mean nothing, as the standard says.
//!
//! Pure: no I/O, no clock, no randomness. How much work a value may cause is bounded, whatever the schema.

mod check;
mod compile;
mod equal;
mod number;
mod pattern;
mod refer;

use serde_json::Value;

use check::{Check, Report};
use compile::{Compiler, Node, NodeId};

/// A schema that values can be held to.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at `{place}`: {reason}")]
pub struct SchemaError {
    /// Where in the schema, as a JSON pointer; `#` is the whole.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// One thing wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where in the value, as a JSON pointer; empty for the whole.
    pub path: String,
    /// What is wrong there, in words.
    pub text: String,
}

/// What is wrong with a value: the first few, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    /// The first of them, in the order in which they were found.
    pub first: Vec<Misfit>,
    /// How many there are beside those.
    pub more: usize,
}

impl Misfits {
    /// Whether there are none: the value fits.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.more == 0
    }
}

impl Schema {
    /// Reads a schema.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let (nodes, root) = Compiler::read(schema)?;
        Ok(Self { nodes, root })
    }

    /// Whether a value fits.
    pub fn fits(&self, value: &Value) -> bool {
        Check::new(&self.nodes).fits(self.root, value)
    }

    /// What is wrong with a value, `most` things in words.
    pub fn misfits(&self, value: &Value, most: usize) -> Misfits {
        let mut report = Report::told(most);
        Check::new(&self.nodes).check(self.root, value, None, &mut report);
        report.misfits
    }
}
