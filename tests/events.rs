//! docs/events.md says what the JSON events hold. What is below its mark is made from the types' sources; to make it
//! anew: `PLAYHOUSE_WRITE_DOCS=1 cargo test --test events`.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use syn::{Attribute, Field, Fields, GenericArgument, Item, PathArguments, Type, Variant};

const MARK: &str = "<!-- What follows is made from the types: PLAYHOUSE_WRITE_DOCS=1 cargo test --test events -->\n";

#[test]
fn the_documented_events_are_those_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (by_hand, documented) = text.split_once(MARK).expect("the mark is in docs/events.md");
    let made = Schema::read().document();
    if std::env::var_os("PLAYHOUSE_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{by_hand}{MARK}{made}")).unwrap();
        return;
    }
    assert!(documented == made, "docs/events.md is out of date: PLAYHOUSE_WRITE_DOCS=1 cargo test --test events");
}

#[test]
fn every_kind_of_event_has_its_section() {
    let schema = Schema::read();
    let Some(Item::Enum(events)) = schema.types.get("AgentEvent") else { panic!("there is no AgentEvent") };
    assert!(events.variants.len() > 20);
    let text = schema.document();
    for event in &events.variants {
        assert!(text.contains(&format!("\n### `{}`\n", event.ident)), "{}", event.ident);
    }
}

/// The types of the protocol, by name.
struct Schema {
    types: BTreeMap<String, Item>,
}

impl Schema {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("actors/protocol/src");
        let mut types = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            for item in syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap().items {
                let name = match &item {
                    Item::Struct(one) => one.ident.to_string(),
                    Item::Enum(one) => one.ident.to_string(),
                    _ => continue,
                };
                types.insert(name, item);
            }
        }
        Self { types }
    }

    fn document(&self) -> String {
        let mut pages = Pages { schema: self, due: VecDeque::new(), named: Vec::new() };
        let mut text = "\n## Every event\n\n".to_owned();
        let Some(Item::Struct(event)) = self.types.get("Event") else { panic!("there is no Event") };
        let own = event.fields.iter().filter(|field| !has(&field.attrs, "flatten"));
        text.push_str(&pages.fields(own));
        let Some(Item::Enum(events)) = self.types.get("AgentEvent") else { panic!("there is no AgentEvent") };
        text.push_str("| `type` | string | the name of the event, as below |\n\n## The events\n");
        for event in &events.variants {
            text.push_str(&format!("\n### `{}`\n\n{}\n", event.ident, meaning(&event.attrs)));
            if !event.fields.is_empty() {
                text.push_str(&format!("\n{}", pages.fields(event.fields.iter())));
            }
        }
        text.push_str("\n## What they hold\n");
        while let Some(name) = pages.due.pop_front() {
            let page = match self.types.get(&name) {
                Some(Item::Struct(one)) => {
                    format!("{}\n\n{}", meaning(&one.attrs), pages.fields(one.fields.iter()))
                }
                Some(Item::Enum(one)) => {
                    format!("{}\n\n{}", meaning(&one.attrs), pages.variants(&one.attrs, one.variants.iter()))
                }
                _ => panic!("what is `{name}`? Say it in `Pages::json`"),
            };
            text.push_str(&format!("\n### `{name}`\n\n{page}"));
        }
        text
    }
}

/// What is written, and the types that it leads to.
struct Pages<'a> {
    schema: &'a Schema,
    due: VecDeque<String>,
    named: Vec<String>,
}

impl Pages<'_> {
    fn fields<'f>(&mut self, fields: impl Iterator<Item = &'f Field>) -> String {
        let mut table = "| field | JSON | meaning |\n|---|---|---|\n".to_owned();
        for field in fields {
            let name = match has(&field.attrs, "flatten") {
                true => "…".to_owned(),
                false => format!("`{}`", field_name(field)),
            };
            table.push_str(&format!("| {name} | {} | {} |\n", self.type_of(field), meaning(&field.attrs)));
        }
        table
    }

    fn type_of(&mut self, field: &Field) -> String {
        let json = self.json(&field.ty);
        if has(&field.attrs, "flatten") {
            return format!("the fields of {json}");
        }
        let json = if has(&field.attrs, "skip_serializing_if") { json.replace(" or null", "") } else { json };
        if has(&field.attrs, "skip_serializing_if") { format!("{json}; may be missing") } else { json }
    }

    fn variants<'v>(&mut self, attrs: &[Attribute], variants: impl Iterator<Item = &'v Variant>) -> String {
        let tag = serde_value(attrs, "tag");
        let style = serde_value(attrs, "rename_all").unwrap_or_default();
        let is_untagged = has(attrs, "untagged");
        let head = match &tag {
            Some(tag) => format!("| `{tag}` | fields beside it | meaning |\n|---|---|---|\n"),
            None => "| JSON | meaning |\n|---|---|\n".to_owned(),
        };
        let mut table = head;
        for variant in variants {
            let own = serde_value(&variant.attrs, "rename");
            let name = own.unwrap_or_else(|| styled(&variant.ident.to_string(), &style));
            let told = meaning(&variant.attrs);
            let holds: Vec<String> = variant.fields.iter().map(|field| self.held(field)).collect();
            table.push_str(&match (&tag, &variant.fields) {
                (Some(_), _) => format!("| `{name}` | {} | {told} |\n", holds.join("; ")),
                (None, _) if is_untagged => format!("| {} | {told} |\n", holds.join("; ")),
                (None, Fields::Unit) => format!("| `\"{name}\"` | {told} |\n"),
                (None, _) => format!("| an object with `{name}`: {} | {told} |\n", holds.join("; ")),
            });
        }
        table
    }

    /// A field in the row of its variant.
    fn held(&mut self, field: &Field) -> String {
        let json = self.type_of(field);
        if field.ident.is_none() {
            return json;
        }
        format!("`{}`: {json}. {}", field_name(field), meaning(&field.attrs))
    }

    fn json(&mut self, of: &Type) -> String {
        let Type::Path(path) = of else { panic!("what type is that?") };
        let last = path.path.segments.last().unwrap();
        let inner = match &last.arguments {
            PathArguments::AngleBracketed(list) => list.args.iter().find_map(|one| match one {
                GenericArgument::Type(inner) => Some(inner.clone()),
                _ => None,
            }),
            _ => None,
        };
        let name = last.ident.to_string();
        match (name.as_str(), inner) {
            ("Option", Some(inner)) => format!("{} or null", self.json(&inner)),
            ("Box" | "Arc" | "Cow", Some(inner)) => self.json(&inner),
            ("Vec", Some(inner)) => format!("list of {}", self.json(&inner)),
            ("String" | "str" | "PathBuf", None) => "string".to_owned(),
            ("u8" | "u16" | "u32" | "u64" | "usize" | "f32" | "f64" | "Cost", None) => "number".to_owned(),
            ("bool", None) => "boolean".to_owned(),
            ("Value", None) => "any JSON".to_owned(),
            ("Timestamp", None) => "string, as in `2026-01-31T08:00:00Z`".to_owned(),
            ("Duration", None) => "object with `secs` and `nanos`".to_owned(),
            (id, None) if id.ends_with("Id") && id != "TurnId" => "string".to_owned(),
            (other, None) => {
                assert!(self.schema.types.contains_key(other), "what is `{other}`?");
                if !self.named.iter().any(|named| named == other) {
                    self.named.push(other.to_owned());
                    self.due.push_back(other.to_owned());
                }
                format!("[`{other}`](#{})", other.to_lowercase())
            }
            (other, Some(_)) => panic!("what is `{other}<…>`?"),
        }
    }
}

fn field_name(field: &Field) -> String {
    let name = || field.ident.as_ref().map(|name| name.to_string()).unwrap_or_default();
    serde_value(&field.attrs, "rename").unwrap_or_else(name)
}

/// The documentation on one line.
fn meaning(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| {
        let syn::Meta::NameValue(pair) = &attr.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        Some(text.value().trim().to_owned())
    });
    lines.collect::<Vec<_>>().join(" ").replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

fn serde_items(attrs: &[Attribute]) -> Vec<(String, Option<String>)> {
    let mut items = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        attr.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(|name| name.to_string()).unwrap_or_default();
            let value = match meta.value() {
                Ok(value) => Some(value.parse::<syn::LitStr>()?.value()),
                Err(_) => None,
            };
            items.push((name, value));
            Ok(())
        })
        .unwrap();
    }
    items
}

fn has(attrs: &[Attribute], name: &str) -> bool {
    serde_items(attrs).iter().any(|(found, _)| found == name)
}

fn serde_value(attrs: &[Attribute], name: &str) -> Option<String> {
    serde_items(attrs).into_iter().find(|(found, _)| found == name)?.1
}

/// A name of a variant, as serde writes it.
fn styled(name: &str, style: &str) -> String {
    let mut out = String::new();
    for (place, c) in name.chars().enumerate() {
        match style {
            "snake_case" | "kebab-case" if c.is_uppercase() => {
                if place > 0 {
                    out.push(if style == "snake_case" { '_' } else { '-' });
                }
                out.extend(c.to_lowercase());
            }
            "camelCase" | "lowercase" if place == 0 || style == "lowercase" => out.extend(c.to_lowercase()),
            _ => out.push(c),
        }
    }
    out
}
