//! A schema's JSON, read into rules.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Number, Value};

use crate::SchemaError;
use crate::equal::Key;
use crate::pattern::Pattern;
use crate::refer::Places;

/// Which of a schema's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub usize);

/// A schema within the schema: all of its rules have to hold.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub rules: Vec<Rule>,
}

impl Node {
    /// Whether nothing fits, because it is `false`.
    pub fn is_never(&self) -> bool {
        matches!(self.rules.as_slice(), [Rule::Never])
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Characters,
    Items,
    Properties,
}

/// On which side of a number others have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    AtLeast,
    Above,
    AtMost,
    Below,
}

/// The types of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// One thing that is asked of a value. Each lets pass what it is not about: a bound of numbers any text.
#[derive(Debug)]
pub(crate) enum Rule {
    Never,
    Refers(NodeId),
    Types(Vec<Type>),
    OneOfThese(Vec<Value>, Vec<Key>),
    Bound(Side, Number),
    MultipleOf(Number),
    Least(Counted, u64),
    Most(Counted, u64),
    Matches(Pattern),
    Unique,
    /// The schemas of the first items, and of those after them.
    Items {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: Option<u64>,
    },
    Properties {
        named: BTreeMap<String, NodeId>,
        patterns: Vec<(Pattern, NodeId)>,
        others: Option<NodeId>,
    },
    Names(NodeId),
    Required(Vec<String>),
    /// With this property there have to be those.
    Needs(String, Vec<String>),
    /// With this property the whole has to fit.
    FitsWith(String, NodeId),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    ExactlyOneOf(Vec<NodeId>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    /// The properties that no rule beside this one speaks of.
    OtherProperties(NodeId),
    /// The items that no rule beside this one speaks of.
    OtherItems(NodeId),
}

impl Rule {
    /// The schemas that the same value has to fit.
    fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::Refers(node) | Self::Not(node) | Self::FitsWith(_, node) => vec![*node],
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::ExactlyOneOf(nodes) => nodes.clone(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::Never
            | Self::Types(_)
            | Self::OneOfThese(..)
            | Self::Bound(..)
            | Self::MultipleOf(_)
            | Self::Least(..)
            | Self::Most(..)
            | Self::Matches(_)
            | Self::Unique
            | Self::Items { .. }
            | Self::Contains { .. }
            | Self::Properties { .. }
            | Self::Names(_)
            | Self::Required(_)
            | Self::Needs(..)
            | Self::OtherProperties(_)
            | Self::OtherItems(_) => Vec::new(),
        }
    }
}

/// What reads a schema.
pub(crate) struct Compiler<'a> {
    places: Places<'a>,
    nodes: Vec<Node>,
    /// The node of each schema that was begun, by where it is in memory.
    known: HashMap<*const Value, NodeId>,
    /// Where in the schema it reads.
    path: Vec<String>,
}

type Read<T> = Result<T, SchemaError>;

impl<'a> Compiler<'a> {
    /// The nodes of a schema, and the one of the whole.
    pub fn read(schema: &'a Value) -> Read<(Vec<Node>, NodeId)> {
        let mut compiler =
            Self { places: Places::of(schema), nodes: Vec::new(), known: HashMap::new(), path: Vec::new() };
        let root = compiler.node(schema)?;
        compiler.refuse_circles()?;
        Ok((compiler.nodes, root))
    }

    fn wrong<T>(&self, reason: impl Into<String>) -> Read<T> {
        let place = self.path.iter().fold("#".to_owned(), |place, step| place + "/" + step);
        Err(SchemaError { place, reason: reason.into() })
    }

    fn at<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.path.push(step.to_owned());
        let done = read(self);
        self.path.pop();
        done
    }

    fn node(&mut self, schema: &'a Value) -> Read<NodeId> {
        let place = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&place) {
            return Ok(*known);
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node::default());
        self.known.insert(place, id);
        let rules = match schema {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![Rule::Never],
            Value::Object(keywords) => self.rules(schema, keywords)?,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return self.wrong("a schema is an object or a boolean");
            }
        };
        if let Some(node) = self.nodes.get_mut(id.0) {
            node.rules = rules;
        }
        Ok(id)
    }

    fn rules(&mut self, schema: &'a Value, all: &'a Map<String, Value>) -> Read<Vec<Rule>> {
        let mut rules = Vec::new();
        if let Some(reference) = all.get("$ref") {
            let target = self.at("$ref", |this| match reference.as_str() {
                None => this.wrong("it has to be a text"),
                Some(reference) => match this.places.find(schema, reference) {
                    Some(target) => this.node(target),
                    None => this.wrong(format!("`{reference}` is not in this schema, and nothing is fetched")),
                },
            })?;
            rules.push(Rule::Refers(target));
            if self.places.ref_stands_alone() {
                return Ok(rules);
            }
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if all.contains_key(keyword) {
                return self.at(keyword, |this| this.wrong("it is not supported: use `$ref`"));
            }
        }
        // Read also where nothing refers to them: what is no schema there is a mistake.
        for keyword in ["$defs", "definitions"] {
            self.schemas_by_name(all, keyword)?;
        }
        self.any_value(all, &mut rules)?;
        self.numbers(all, &mut rules)?;
        self.texts(all, &mut rules)?;
        self.arrays(all, &mut rules)?;
        self.objects(all, &mut rules)?;
        self.combined(all, &mut rules)?;
        // Last: they are about what the others leave.
        for (keyword, rule) in [
            ("unevaluatedProperties", Rule::OtherProperties as fn(NodeId) -> Rule),
            ("unevaluatedItems", Rule::OtherItems),
        ] {
            rules.extend(self.schema(all, keyword)?.map(rule));
        }
        Ok(rules)
    }

    fn any_value(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        if let Some(types) = all.get("type") {
            let types = self.at("type", |this| match types {
                Value::Array(types) => types.iter().map(|name| this.type_named(name)).collect::<Read<Vec<_>>>(),
                name => this.type_named(name).map(|one| vec![one]),
            })?;
            rules.push(Rule::Types(types));
        }
        if let Some(listed) = all.get("enum") {
            let Value::Array(listed) = listed else { return self.at("enum", |this| this.wrong("it has to be a list")) };
            rules.push(Rule::OneOfThese(listed.clone(), listed.iter().map(Key::of).collect()));
        }
        if let Some(value) = all.get("const") {
            rules.push(Rule::OneOfThese(vec![value.clone()], vec![Key::of(value)]));
        }
        Ok(())
    }

    fn type_named(&self, name: &Value) -> Read<Type> {
        match Type::ALL.iter().find(|(known, _)| name.as_str() == Some(known)) {
            Some((_, one)) => Ok(*one),
            None => self.wrong(format!("{name} is no type of JSON")),
        }
    }

    fn numbers(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        for (keyword, limit, strict, beyond) in [
            ("minimum", Side::AtLeast, "exclusiveMinimum", Side::Above),
            ("maximum", Side::AtMost, "exclusiveMaximum", Side::Below),
        ] {
            let (bound, strict) = (all.get(keyword), (strict, all.get(strict)));
            // In draft 4 the strict one is a word about the other.
            let side = if strict.1 == Some(&Value::Bool(true)) { beyond } else { limit };
            if let Some(bound) = bound {
                rules.push(Rule::Bound(side, self.number(keyword, bound)?));
            }
            match strict {
                (_, None | Some(Value::Bool(_))) => {}
                (keyword, Some(bound)) => rules.push(Rule::Bound(beyond, self.number(keyword, bound)?)),
            }
        }
        if let Some(value) = all.get("multipleOf") {
            let number = self.number("multipleOf", value)?;
            if number.as_f64().is_none_or(|number| number <= 0.0) {
                return self.at("multipleOf", |this| this.wrong("it has to be above 0"));
            }
            rules.push(Rule::MultipleOf(number));
        }
        Ok(())
    }

    fn texts(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        rules.extend(self.count(all, "minLength")?.map(|least| Rule::Least(Counted::Characters, least)));
        rules.extend(self.count(all, "maxLength")?.map(|most| Rule::Most(Counted::Characters, most)));
        if let Some(pattern) = all.get("pattern") {
            let pattern = self.at("pattern", |this| match pattern.as_str() {
                Some(pattern) => this.pattern(pattern),
                None => this.wrong("it has to be a text"),
            })?;
            rules.push(Rule::Matches(pattern));
        }
        Ok(())
    }

    fn arrays(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        rules.extend(self.count(all, "minItems")?.map(|least| Rule::Least(Counted::Items, least)));
        rules.extend(self.count(all, "maxItems")?.map(|most| Rule::Most(Counted::Items, most)));
        match all.get("uniqueItems") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => rules.push(Rule::Unique),
            Some(_) => return self.at("uniqueItems", |this| this.wrong("it has to be a boolean")),
        }
        let mut first = self.schemas(all, "prefixItems")?.unwrap_or_default();
        // Before draft 2020-12 the first ones stand in `items`.
        let rest = match all.get("items") {
            Some(Value::Array(_)) => {
                first = self.schemas(all, "items")?.unwrap_or_default();
                self.schema(all, "additionalItems")?
            }
            _ => self.schema(all, "items")?,
        };
        if !first.is_empty() || rest.is_some() {
            rules.push(Rule::Items { first, rest });
        }
        let (least, most) = (self.count(all, "minContains")?, self.count(all, "maxContains")?);
        if let Some(node) = self.schema(all, "contains")? {
            rules.push(Rule::Contains { node, least: least.unwrap_or(1), most });
        }
        Ok(())
    }

    fn objects(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        rules.extend(self.count(all, "minProperties")?.map(|least| Rule::Least(Counted::Properties, least)));
        rules.extend(self.count(all, "maxProperties")?.map(|most| Rule::Most(Counted::Properties, most)));
        if let Some(names) = all.get("required") {
            rules.push(Rule::Required(self.names("required", names)?));
        }
        let named: BTreeMap<_, _> = self.schemas_by_name(all, "properties")?.into_iter().collect();
        let mut patterns = Vec::new();
        for (pattern, node) in self.schemas_by_name(all, "patternProperties")? {
            let pattern = self.at("patternProperties", |this| this.pattern(&pattern))?;
            patterns.push((pattern, node));
        }
        let others = self.schema(all, "additionalProperties")?;
        if !named.is_empty() || !patterns.is_empty() || others.is_some() {
            rules.push(Rule::Properties { named, patterns, others });
        }
        rules.extend(self.schema(all, "propertyNames")?.map(Rule::Names));
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, needed) in self.map(all, keyword)?.into_iter().flatten() {
                let rule = self.at(keyword, |this| match (needed, keyword) {
                    (Value::Array(_), "dependentRequired" | "dependencies") => {
                        this.names(name, needed).map(|needed| Rule::Needs(name.clone(), needed))
                    }
                    (_, "dependentRequired") => this.wrong(format!("`{name}` has to be a list of texts")),
                    (schema, _) => {
                        this.at(name, |this| this.node(schema)).map(|node| Rule::FitsWith(name.clone(), node))
                    }
                })?;
                rules.push(rule);
            }
        }
        Ok(())
    }

    fn combined(&mut self, all: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Read<()> {
        for (keyword, rule) in
            [("allOf", Rule::AllOf as fn(Vec<NodeId>) -> Rule), ("anyOf", Rule::AnyOf), ("oneOf", Rule::ExactlyOneOf)]
        {
            match self.schemas(all, keyword)? {
                Some(nodes) if nodes.is_empty() => return self.at(keyword, |this| this.wrong("it may not be empty")),
                nodes => rules.extend(nodes.map(rule)),
            }
        }
        rules.extend(self.schema(all, "not")?.map(Rule::Not));
        let (then, otherwise) = (self.schema(all, "then")?, self.schema(all, "else")?);
        if let Some(condition) = self.schema(all, "if")? {
            rules.push(Rule::If { condition, then, otherwise });
        }
        Ok(())
    }

    fn schema(&mut self, all: &'a Map<String, Value>, keyword: &str) -> Read<Option<NodeId>> {
        all.get(keyword).map(|schema| self.at(keyword, |this| this.node(schema))).transpose()
    }

    fn schemas(&mut self, all: &'a Map<String, Value>, keyword: &str) -> Read<Option<Vec<NodeId>>> {
        let Some(list) = all.get(keyword) else { return Ok(None) };
        self.at(keyword, |this| {
            let Value::Array(list) = list else { return this.wrong("it has to be a list of schemas") };
            let nodes = list.iter().enumerate().map(|(n, schema)| this.at(&n.to_string(), |this| this.node(schema)));
            nodes.collect::<Read<Vec<_>>>().map(Some)
        })
    }

    fn schemas_by_name(&mut self, all: &'a Map<String, Value>, keyword: &str) -> Read<Vec<(String, NodeId)>> {
        let Some(schemas) = self.map(all, keyword)? else { return Ok(Vec::new()) };
        self.at(keyword, |this| {
            let node = |(name, schema): (&String, &'a Value)| {
                this.at(name, |this| this.node(schema)).map(|node| (name.clone(), node))
            };
            schemas.iter().map(node).collect()
        })
    }

    fn map(&mut self, all: &'a Map<String, Value>, keyword: &str) -> Read<Option<&'a Map<String, Value>>> {
        match all.get(keyword) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => self.at(keyword, |this| this.wrong("it has to be an object")),
        }
    }

    fn number(&mut self, keyword: &str, value: &Value) -> Read<Number> {
        match value {
            Value::Number(number) => Ok(number.clone()),
            _ => self.at(keyword, |this| this.wrong("it has to be a number")),
        }
    }

    fn count(&mut self, all: &Map<String, Value>, keyword: &str) -> Read<Option<u64>> {
        let Some(value) = all.get(keyword) else { return Ok(None) };
        // 2.0 is the same number as 2.
        let whole = |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
        match value.as_u64().or_else(|| value.as_f64().and_then(whole)) {
            Some(count) => Ok(Some(count)),
            None => self.at(keyword, |this| this.wrong("it has to be a whole number of at least 0")),
        }
    }

    fn names(&mut self, keyword: &str, value: &Value) -> Read<Vec<String>> {
        let texts =
            value.as_array().and_then(|list| list.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        match texts {
            Some(names) => Ok(names),
            None => self.at(keyword, |this| this.wrong("it has to be a list of texts")),
        }
    }

    fn pattern(&self, text: &str) -> Read<Pattern> {
        Pattern::new(text).or_else(|reason| self.wrong(format!("`{text}` is no pattern: {reason}")))
    }

    /// Fails if a schema is part of itself for the same value, so that no value could ever be held to it.
    fn refuse_circles(&self) -> Read<()> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let below = |id: NodeId| -> Vec<NodeId> {
            self.nodes.get(id.0).map(|node| node.rules.iter().flat_map(Rule::in_place).collect()).unwrap_or_default()
        };
        for start in 0..self.nodes.len() {
            if marks.get(start) != Some(&Mark::New) {
                continue;
            }
            let mut open = vec![(NodeId(start), below(NodeId(start)))];
            if let Some(mark) = marks.get_mut(start) {
                *mark = Mark::Open;
            }
            while let Some((id, left)) = open.last_mut() {
                let Some(next) = left.pop() else {
                    if let Some(mark) = marks.get_mut(id.0) {
                        *mark = Mark::Done;
                    }
                    open.pop();
                    continue;
                };
                match marks.get_mut(next.0) {
                    Some(Mark::Open) => return self.wrong("a `$ref` leads back to itself without an end"),
                    Some(mark @ Mark::New) => {
                        *mark = Mark::Open;
                        open.push((next, below(next)));
                    }
                    Some(Mark::Done) | None => {}
                }
            }
        }
        Ok(())
    }
}
