//! Where a `$ref` leads: to a place of the same schema, by pointer, anchor or `$id`.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Every schema within a schema, and what it is called.
pub(crate) struct Places<'a> {
    /// Schemas with an `$id`, by that.
    ids: HashMap<String, &'a Value>,
    /// Anchors, by the schema with an `$id` that they are in, and their name.
    anchors: HashMap<(*const Value, &'a str), &'a Value>,
    /// The schema with an `$id` that each schema is in, with that id; the outermost is in itself.
    bases: HashMap<*const Value, (&'a Value, String)>,
    ref_stands_alone: bool,
    root: &'a Value,
}

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value has a schema for each name.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

impl<'a> Places<'a> {
    pub fn of(root: &'a Value) -> Self {
        let named = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let ref_stands_alone = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|old| named.contains(old));
        let mut places =
            Self { ids: HashMap::new(), anchors: HashMap::new(), bases: HashMap::new(), ref_stands_alone, root };
        let mut waiting = vec![(root, root, String::new())];
        while let Some((schema, mut base, mut id)) = waiting.pop() {
            let has_only_ref = ref_stands_alone && schema.get("$ref").is_some();
            let named = ["$id", "id"].iter().find_map(|key| schema.get(key)).and_then(Value::as_str);
            match named.filter(|_| !has_only_ref) {
                // Up to draft 7 an anchor is an id with nothing before it.
                Some(named) if named.starts_with('#') => {
                    let anchor = named.trim_start_matches('#');
                    places.anchors.insert((std::ptr::from_ref(base), anchor), schema);
                }
                Some(named) => {
                    (base, id) = (schema, joined(&id, named.trim_end_matches('#')));
                    places.ids.insert(id.clone(), schema);
                }
                None => {}
            }
            for anchor in ["$anchor", "$dynamicAnchor"].iter().filter_map(|key| schema.get(key)?.as_str()) {
                places.anchors.insert((std::ptr::from_ref(base), anchor), schema);
            }
            places.bases.insert(std::ptr::from_ref(schema), (base, id.clone()));
            waiting.extend(within(schema).into_iter().map(|inner| (inner, base, id.clone())));
        }
        places
    }

    /// Whether what stands beside a `$ref` does not count.
    pub fn ref_stands_alone(&self) -> bool {
        self.ref_stands_alone
    }

    /// The schema that a reference within another leads to.
    pub fn find(&self, within: &'a Value, reference: &str) -> Option<&'a Value> {
        let nowhere = (self.root, String::new());
        let (base, id) = self.bases.get(&std::ptr::from_ref(within)).unwrap_or(&nowhere);
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = match uri {
            "" => base,
            uri => self.ids.get(&joined(id, uri)).or_else(|| self.ids.get(uri))?,
        };
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        match fragment.as_ref() {
            "" => Some(base),
            pointer if pointer.starts_with('/') => base.pointer(pointer),
            anchor => self.anchors.get(&(std::ptr::from_ref(*base), anchor)).copied(),
        }
    }
}

/// The schemas that are directly within a schema.
fn within(schema: &Value) -> Vec<&Value> {
    let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
    let one = ONE.iter().filter_map(|key| schema.get(key));
    let list = LIST.iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    let named = NAMED.iter().filter_map(|key| schema.get(key)?.as_object()).flat_map(|map| map.values());
    one.chain(list).chain(named).filter(is_schema).collect()
}

/// A name that may be relative, as seen from a schema of this id.
fn joined(base: &str, name: &str) -> String {
    let is_whole = name.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
    let authority =
        base.split_once("//").map_or(0, |(scheme, rest)| scheme.len() + 2 + rest.find('/').unwrap_or(rest.len()));
    let folder = match name.starts_with('/') {
        true => authority,
        false => base.rfind('/').map_or(0, |at| at + 1).max(authority),
    };
    match is_whole {
        true => name.to_owned(),
        false => base.get(..folder).unwrap_or_default().to_owned() + name,
    }
}
