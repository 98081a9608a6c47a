//! Holding a value to a schema.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::compile::{Counted, Node, NodeId, Rule, Side, Type};
use crate::equal::Key;
use crate::number::{is_multiple, is_whole, order};
use crate::{Misfit, Misfits};

/// How many rules are looked at for one value. What needs more, such as schemas that name each other many times over,
/// does not fit.
const MOST_STEPS: u32 = 10_000_000;
/// How many characters of a value or a list of names are told.
const SHOWN: usize = 100;

/// What is found out about a value.
pub(crate) struct Report {
    pub misfits: Misfits,
    wanted: Wanted,
}

enum Wanted {
    /// Whether there is any misfit.
    Verdict,
    /// All of them, this many in words.
    Words(usize),
}

impl Report {
    pub fn told(most: usize) -> Self {
        Self { misfits: Misfits::default(), wanted: Wanted::Words(most) }
    }

    fn verdict() -> Self {
        Self { misfits: Misfits::default(), wanted: Wanted::Verdict }
    }

    fn add(&mut self, at: Option<&At<'_>>, text: impl FnOnce() -> String) {
        match self.wanted {
            Wanted::Words(most) if self.misfits.first.len() < most => {
                self.misfits.first.push(Misfit { path: At::pointer(at), text: text() });
            }
            Wanted::Words(_) | Wanted::Verdict => self.misfits.more += 1,
        }
    }

    /// Whether nothing more needs to be found out.
    fn is_settled(&self) -> bool {
        match self.wanted {
            Wanted::Verdict => !self.misfits.is_empty(),
            Wanted::Words(_) => false,
        }
    }
}

/// A place in a value.
pub(crate) struct At<'a> {
    within: Option<&'a At<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Name(&'a str),
    Item(usize),
}

impl At<'_> {
    fn pointer(at: Option<&Self>) -> String {
        let Some(Self { within, step }) = at else { return String::new() };
        let before = At::pointer(*within);
        match step {
            Step::Name(name) => format!("{before}/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Item(item) => format!("{before}/{item}"),
        }
    }
}

/// One value held to one schema.
pub(crate) struct Check<'s> {
    nodes: &'s [Node],
    left: Cell<u32>,
}

impl<'s> Check<'s> {
    pub fn new(nodes: &'s [Node]) -> Self {
        Self { nodes, left: Cell::new(MOST_STEPS) }
    }

    fn rules(&self, node: NodeId) -> &'s [Rule] {
        self.nodes.get(node.0).map_or(&[], |node| node.rules.as_slice())
    }

    pub fn fits(&self, node: NodeId, value: &Value) -> bool {
        let mut report = Report::verdict();
        self.check(node, value, None, &mut report);
        report.misfits.is_empty()
    }

    pub fn check(&self, node: NodeId, value: &Value, at: Option<&At<'_>>, report: &mut Report) {
        for rule in self.rules(node) {
            if report.is_settled() {
                return;
            }
            let Some(left) = self.left.get().checked_sub(1) else {
                return report.add(at, || "it takes too long to be checked".to_owned());
            };
            self.left.set(left);
            match value {
                Value::Array(items) => self.array(rule, (value, items), node, at, report),
                Value::Object(map) => self.object(rule, (value, map), node, at, report),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
            self.whole(rule, value, at, report);
        }
    }

    /// What is asked of a value of any type, of a number or of a text.
    fn whole(&self, rule: &Rule, value: &Value, at: Option<&At<'_>>, report: &mut Report) {
        match rule {
            Rule::Never => report.add(at, || format!("{} is not allowed here", shown(value))),
            Rule::Refers(node) => self.check(*node, value, at, report),
            Rule::Types(types) if !types.iter().any(|one| is_of(value, *one)) => report.add(at, || {
                let names: Vec<String> = types.iter().map(|one| format!("\"{}\"", one.name())).collect();
                let word = if names.len() == 1 { "type" } else { "types" };
                format!("{} is not of {word} {}", shown(value), names.join(", "))
            }),
            Rule::OneOfThese(listed, keys) if !keys.contains(&Key::of(value)) => {
                report.add(at, || match listed.as_slice() {
                    [only] => format!("{} was expected", shown(only)),
                    listed => {
                        let listed: Vec<String> = listed.iter().map(Value::to_string).collect();
                        format!("{} is not one of {}", shown(value), cut(&listed.join(", ")))
                    }
                })
            }
            Rule::Bound(side, limit) => {
                let Value::Number(number) = value else { return };
                let (holds, words) = match (side, order(number, limit)) {
                    (Side::AtLeast, is) => (is != Ordering::Less, "less than the minimum of"),
                    (Side::Above, is) => (is == Ordering::Greater, "less than or equal to the minimum of"),
                    (Side::AtMost, is) => (is != Ordering::Greater, "greater than the maximum of"),
                    (Side::Below, is) => (is == Ordering::Less, "greater than or equal to the maximum of"),
                };
                if !holds {
                    report.add(at, || format!("{number} is {words} {limit}"));
                }
            }
            Rule::MultipleOf(of) => match value {
                Value::Number(number) if !is_multiple(number, of) => {
                    report.add(at, || format!("{number} is not a multiple of {of}"));
                }
                _ => {}
            },
            Rule::Least(counted, least) => match count(value, *counted) {
                Some(count) if count < *least => report.add(at, || match counted {
                    Counted::Characters => format!("{} is shorter than {least} characters", shown(value)),
                    Counted::Items => format!("{} has less than {least} items", shown(value)),
                    Counted::Properties => format!("{} has less than {least} properties", shown(value)),
                }),
                Some(_) | None => {}
            },
            Rule::Most(counted, most) => match count(value, *counted) {
                Some(count) if count > *most => report.add(at, || match counted {
                    Counted::Characters => format!("{} is longer than {most} characters", shown(value)),
                    Counted::Items => format!("{} has more than {most} items", shown(value)),
                    Counted::Properties => format!("{} has more than {most} properties", shown(value)),
                }),
                Some(_) | None => {}
            },
            Rule::Matches(pattern) => match value {
                Value::String(text) if !pattern.matches(text) => {
                    report.add(at, || format!("{} does not match \"{}\"", shown(value), pattern.as_str()));
                }
                _ => {}
            },
            Rule::AllOf(nodes) => nodes.iter().for_each(|node| self.check(*node, value, at, report)),
            Rule::AnyOf(nodes) if !nodes.iter().any(|node| self.fits(*node, value)) => {
                self.none_of(nodes, value, at, report);
            }
            Rule::ExactlyOneOf(nodes) => match nodes.iter().filter(|node| self.fits(**node, value)).take(2).count() {
                1 => {}
                0 => self.none_of(nodes, value, at, report),
                _ => report.add(at, || format!("{} fits more than one of the schemas in `oneOf`", shown(value))),
            },
            Rule::Not(node) if self.fits(*node, value) => {
                report.add(at, || format!("{} fits what is excluded by `not`", shown(value)));
            }
            Rule::If { condition, then, otherwise } => {
                let next = if self.fits(*condition, value) { then } else { otherwise };
                if let Some(next) = next {
                    self.check(*next, value, at, report);
                }
            }
            Rule::FitsWith(when, node) if value.get(when).is_some() => self.check(*node, value, at, report),
            Rule::Types(_)
            | Rule::OneOfThese(..)
            | Rule::AnyOf(_)
            | Rule::Not(_)
            | Rule::Unique
            | Rule::Items { .. }
            | Rule::Contains { .. }
            | Rule::Properties { .. }
            | Rule::Names(_)
            | Rule::Required(_)
            | Rule::Needs(..)
            | Rule::FitsWith(..)
            | Rule::OtherProperties(_)
            | Rule::OtherItems(_) => {}
        }
    }

    /// Says that a value fits none of several schemas: in the words of the one that is about its type, if that is one.
    fn none_of(&self, nodes: &[NodeId], value: &Value, at: Option<&At<'_>>, report: &mut Report) {
        let is_about = |node: &&NodeId| {
            let types = self.rules(**node).iter().find_map(|rule| match rule {
                Rule::Types(types) => Some(types),
                _ => None,
            });
            types.is_none_or(|types| types.iter().any(|one| is_of(value, *one)))
        };
        let near: Vec<&NodeId> = nodes.iter().filter(is_about).collect();
        match near.as_slice() {
            [only] if nodes.len() > 1 => self.check(**only, value, at, report),
            _ => {
                report.add(at, || format!("{} fits none of the {} schemas that it may fit", shown(value), nodes.len()))
            }
        }
    }

    fn array(
        &self,
        rule: &Rule,
        (value, items): (&Value, &[Value]),
        node: NodeId,
        at: Option<&At<'_>>,
        report: &mut Report,
    ) {
        let item = |node: NodeId, n: usize, item: &Value, report: &mut Report| {
            self.check(node, item, Some(&At { within: at, step: Step::Item(n) }), report);
        };
        match rule {
            Rule::Items { first, rest } => {
                for (n, value) in items.iter().enumerate() {
                    match first.get(n).or(rest.as_ref()) {
                        Some(_) if report.is_settled() => return,
                        Some(node) => item(*node, n, value, report),
                        None => return,
                    }
                }
            }
            Rule::Contains { node, least, most } => {
                let found = items.iter().filter(|item| self.fits(*node, item)).count() as u64;
                if found < *least {
                    report.add(at, || format!("has {found} items that fit `contains`, and needs {least}"));
                }
                if let Some(most) = most.filter(|most| found > *most) {
                    report.add(at, || format!("has {found} items that fit `contains`, and may have {most}"));
                }
            }
            Rule::Unique => {
                let mut seen = HashSet::new();
                if let Some(twice) = items.iter().find(|item| !seen.insert(Key::of(item))) {
                    report.add(at, || format!("has {} more than once", shown(twice)));
                }
            }
            Rule::OtherItems(others) => {
                let mut spoken_of = vec![false; items.len()];
                self.items_spoken_of(self.rules_before_others(node), (value, items), &mut spoken_of);
                for (n, value) in items.iter().enumerate().filter(|(n, _)| spoken_of.get(*n) == Some(&false)) {
                    item(*others, n, value, report);
                }
            }
            _ => {}
        }
    }

    fn object(
        &self,
        rule: &Rule,
        (value, map): (&Value, &Map<String, Value>),
        node: NodeId,
        at: Option<&At<'_>>,
        report: &mut Report,
    ) {
        let property = |node: NodeId, name: &str, value: &Value, report: &mut Report| {
            self.check(node, value, Some(&At { within: at, step: Step::Name(name) }), report);
        };
        match rule {
            Rule::Properties { named, patterns, others } => {
                let mut unknown = Vec::new();
                for (name, value) in map {
                    if report.is_settled() {
                        return;
                    }
                    let of_name = named.get(name);
                    let of_pattern = patterns.iter().filter(|(pattern, _)| pattern.matches(name)).map(|(_, node)| node);
                    let mut is_known = false;
                    for node in of_name.into_iter().chain(of_pattern) {
                        is_known = true;
                        property(*node, name, value, report);
                    }
                    match others {
                        Some(others) if !is_known && self.is_never(*others) => unknown.push(name),
                        Some(others) if !is_known => property(*others, name, value, report),
                        Some(_) | None => {}
                    }
                }
                unexpected(&unknown, at, report);
            }
            Rule::Names(node) => {
                for name in map.keys() {
                    self.check(*node, &Value::String(name.clone()), at, report);
                }
            }
            Rule::Required(names) => {
                for name in names.iter().filter(|name| !map.contains_key(*name)) {
                    report.add(at, || format!("\"{name}\" is a required property"));
                }
            }
            Rule::Needs(when, needed) if map.contains_key(when) => {
                for name in needed.iter().filter(|name| !map.contains_key(*name)) {
                    report.add(at, || format!("\"{name}\" is a required property beside \"{when}\""));
                }
            }
            Rule::OtherProperties(others) => {
                let mut spoken_of = HashSet::new();
                self.properties_spoken_of(self.rules_before_others(node), (value, map), &mut spoken_of);
                let left: Vec<_> = map.iter().filter(|(name, _)| !spoken_of.contains(name.as_str())).collect();
                if self.is_never(*others) {
                    return unexpected(&left.iter().map(|(name, _)| *name).collect::<Vec<_>>(), at, report);
                }
                left.into_iter().for_each(|(name, value)| property(*others, name, value, report));
            }
            _ => {}
        }
    }

    fn is_never(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(Node::is_never)
    }

    /// The nodes whose word counts for a value, beside the rules of a node itself.
    fn beside(&self, rule: &Rule, value: &Value) -> Vec<NodeId> {
        match rule {
            Rule::Refers(node) => vec![*node],
            Rule::AllOf(nodes) => nodes.clone(),
            Rule::AnyOf(nodes) | Rule::ExactlyOneOf(nodes) => {
                nodes.iter().copied().filter(|node| self.fits(*node, value)).collect()
            }
            Rule::If { condition, then, otherwise } => match self.fits(*condition, value) {
                true => [Some(*condition), *then].into_iter().flatten().collect(),
                false => otherwise.iter().copied().collect(),
            },
            Rule::FitsWith(when, node) if value.get(when).is_some() => vec![*node],
            _ => Vec::new(),
        }
    }

    /// A node's rules without those about what the others leave, which stand last.
    fn rules_before_others(&self, node: NodeId) -> &'s [Rule] {
        let rules = self.rules(node);
        let before = rules.partition_point(|rule| !matches!(rule, Rule::OtherProperties(_) | Rule::OtherItems(_)));
        rules.get(..before).unwrap_or_default()
    }

    fn properties_spoken_of<'v>(
        &self,
        rules: &[Rule],
        (value, map): (&Value, &'v Map<String, Value>),
        spoken_of: &mut HashSet<&'v str>,
    ) {
        for rule in rules {
            match rule {
                Rule::Properties { named, patterns, others } => {
                    let is_known = |name: &str| {
                        others.is_some()
                            || named.contains_key(name)
                            || patterns.iter().any(|(pattern, _)| pattern.matches(name))
                    };
                    spoken_of.extend(map.keys().map(String::as_str).filter(|name| is_known(name)));
                }
                Rule::OtherProperties(_) => spoken_of.extend(map.keys().map(String::as_str)),
                _ => {
                    for node in self.beside(rule, value) {
                        self.properties_spoken_of(self.rules(node), (value, map), spoken_of);
                    }
                }
            }
        }
    }

    fn items_spoken_of(&self, rules: &[Rule], (value, items): (&Value, &[Value]), spoken_of: &mut [bool]) {
        for rule in rules {
            match rule {
                Rule::Items { first, rest } => {
                    let known = if rest.is_some() { items.len() } else { first.len() };
                    spoken_of.iter_mut().take(known).for_each(|one| *one = true);
                }
                Rule::Contains { node, .. } => {
                    for (one, item) in spoken_of.iter_mut().zip(items) {
                        *one |= self.fits(*node, item);
                    }
                }
                Rule::OtherItems(_) => spoken_of.fill(true),
                _ => {
                    for node in self.beside(rule, value) {
                        self.items_spoken_of(self.rules(node), (value, items), spoken_of);
                    }
                }
            }
        }
    }
}

fn unexpected(names: &[&String], at: Option<&At<'_>>, report: &mut Report) {
    if names.is_empty() {
        return;
    }
    report.add(at, || {
        let listed: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let word = if listed.len() == 1 { "was" } else { "were" };
        format!("Additional properties are not allowed ({} {word} unexpected)", cut(&listed.join(", ")))
    });
}

fn is_of(value: &Value, one: Type) -> bool {
    match (value, one) {
        (Value::Null, Type::Null)
        | (Value::Bool(_), Type::Boolean)
        | (Value::Number(_), Type::Number)
        | (Value::String(_), Type::String)
        | (Value::Array(_), Type::Array)
        | (Value::Object(_), Type::Object) => true,
        (Value::Number(number), Type::Integer) => is_whole(number),
        _ => false,
    }
}

fn count(value: &Value, counted: Counted) -> Option<u64> {
    let count = match (value, counted) {
        (Value::String(text), Counted::Characters) => text.chars().count(),
        (Value::Array(items), Counted::Items) => items.len(),
        (Value::Object(map), Counted::Properties) => map.len(),
        _ => return None,
    };
    Some(count as u64)
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}
