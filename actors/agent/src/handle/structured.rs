//! Answers of a given form: asked for by a JSON Schema, checked, and asked for once more if they do not fit.

use std::sync::Arc;

use playhouse_protocol::{Outcome, ResponseFormat};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{AgentHandle, HandleError};
use crate::machine::RunReport;

/// Where the value of a form that is no object is kept: services take objects only.
const VALUE: &str = "value";

/// Why there is no answer of the form that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StructuredError {
    /// The agent could not be asked.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The run ended without a whole answer; one that was cut off is none.
    #[error("there is no answer: {}", .0.outcome)]
    NoAnswer(Arc<RunReport>),
    /// The answer does not fit, and neither did the one before it.
    #[error(
        "the answer does not have the form that was asked for, after one repair: {reason}; the answer was: {}",
        head(answer)
    )]
    Misfit {
        /// What is wrong with it.
        reason: String,
        /// The second answer, as the model gave it.
        answer: String,
    },
    /// The form itself is none.
    #[error("the form is no JSON Schema that answers can be checked against: {reason}")]
    BadForm {
        /// What is wrong with the schema.
        reason: String,
    },
}

impl AgentHandle {
    /// Says something and waits for an answer that is a `T`. An answer that is none is asked for once more, with the
    /// reason; both rounds are runs of the session like any other.
    pub async fn prompt_as<T: DeserializeOwned + JsonSchema>(&self, text: &str) -> Result<T, StructuredError> {
        let form = Form::of::<T>()?;
        let mut misfit = match form.read::<T>(&self.answer(text, &form).await?) {
            Ok(value) => return Ok(value),
            Err(misfit) => misfit,
        };
        let repair = format!(
            "That answer does not have the form that was asked for: {misfit}\nAnswer again, with nothing but the JSON."
        );
        let answer = self.answer(&repair, &form).await?;
        match form.read::<T>(&answer) {
            Ok(value) => Ok(value),
            Err(again) => {
                misfit = again;
                Err(StructuredError::Misfit { reason: misfit, answer })
            }
        }
    }

    async fn answer(&self, text: &str, form: &Form) -> Result<String, StructuredError> {
        match self.prompt_for(text, form.format.clone()).await {
            Ok(report) if report.outcome == Outcome::Stop => Ok(report.text()),
            Ok(report) | Err(HandleError::Failed(report)) => Err(StructuredError::NoAnswer(report)),
            Err(error) => Err(error.into()),
        }
    }
}

/// A form with what checks it.
struct Form {
    format: Arc<ResponseFormat>,
    validator: jsonschema::Validator,
    /// Whether the value is wrapped into an object.
    wrapped: bool,
}

impl Form {
    fn of<T: JsonSchema>() -> Result<Self, StructuredError> {
        let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
        let name = wire_name(&T::schema_name());
        let wrapped = schema.get("type").and_then(Value::as_str) != Some("object");
        if let Some(root) = schema.as_object_mut() {
            root.remove("$schema");
            if wrapped {
                schema = wrap(std::mem::take(root));
            }
        }
        visit(&mut schema, &mut known_formats);
        let built = jsonschema::options().offline().build(&schema);
        let validator = built.map_err(|error| StructuredError::BadForm { reason: error.to_string() })?;
        // The model is asked for nothing but the properties; one that gives more is let off.
        visit(&mut schema, &mut close);
        Ok(Self { format: Arc::new(ResponseFormat { name, schema }), validator, wrapped })
    }

    /// The answer as a value of the form, or what is wrong with it.
    fn read<T: DeserializeOwned>(&self, answer: &str) -> Result<T, String> {
        let mut value: Value =
            serde_json::from_str(bare(answer)).map_err(|error| format!("it is no JSON ({error})"))?;
        let wrongs: Vec<String> = self.validator.iter_errors(&value).take(3).map(|wrong| self.told(&wrong)).collect();
        if !wrongs.is_empty() {
            return Err(wrongs.join("; "));
        }
        if self.wrapped {
            value = value.get_mut(VALUE).map(Value::take).unwrap_or_default();
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// What is wrong, after the place in the caller's own value: `people: "many" is not of type "integer"`.
    fn told(&self, wrong: &jsonschema::ValidationError<'_>) -> String {
        let path = wrong.instance_path().to_string();
        let mut parts = path.split('/').skip(1).peekable();
        if self.wrapped && parts.peek() == Some(&VALUE) {
            parts.next();
        }
        match parts.collect::<Vec<_>>().join(".") {
            place if place.is_empty() => wrong.to_string(),
            place => format!("{place}: {wrong}"),
        }
    }
}

/// As much of an answer as an error shows.
fn head(answer: &str) -> String {
    const SHOWN: usize = 200;
    let more = if answer.chars().nth(SHOWN).is_some() { "…" } else { "" };
    answer.chars().take(SHOWN).collect::<String>() + more
}

/// The formats that services know; others, of numbers for instance, some refuse.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

fn known_formats(schema: &mut Map<String, Value>) {
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        schema.remove("format");
    }
}

fn close(schema: &mut Map<String, Value>) {
    if schema.contains_key("properties") && schema.get("type").and_then(Value::as_str) == Some("object") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Calls `change` for a schema and every schema in it.
fn visit(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(schema) = schema.as_object_mut() else { return };
    change(schema);
    for (keyword, inner) in schema.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties" | "$defs" | "patternProperties", Value::Object(named)) => {
                named.values_mut().for_each(|inner| visit(inner, change));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().for_each(|inner| visit(inner, change));
            }
            ("items" | "additionalProperties" | "not", inner) => visit(inner, change),
            _ => {}
        }
    }
}

/// A schema that is no object's, as the one property of an object.
fn wrap(mut inner: Map<String, Value>) -> Value {
    const ROOT: &str = "#/$defs/Root";
    let mut definitions = match inner.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    // What refers to the root would refer to the object around it.
    let mut refers = false;
    let mut mend = |schema: &mut Map<String, Value>| {
        if schema.get("$ref").and_then(Value::as_str) == Some("#") {
            schema.insert("$ref".to_owned(), ROOT.into());
            refers = true;
        }
    };
    let mut inner = Value::Object(inner);
    visit(&mut inner, &mut mend);
    definitions.values_mut().for_each(|definition| visit(definition, &mut mend));
    if refers {
        definitions.insert("Root".to_owned(), std::mem::replace(&mut inner, json!({ "$ref": ROOT })));
    }
    let mut outer = json!({
        "type": "object",
        "properties": { VALUE: inner },
        "required": [VALUE],
        "additionalProperties": false,
    });
    if let (Some(outer), false) = (outer.as_object_mut(), definitions.is_empty()) {
        outer.insert("$defs".to_owned(), Value::Object(definitions));
    }
    outer
}

/// JSON without the fence that models put around it.
fn bare(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer.strip_prefix("```json").or_else(|| answer.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).map_or(answer, str::trim)
}

/// A name that services take.
fn wire_name(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(64).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct City {
        name: String,
        people: Option<u32>,
    }

    #[test]
    fn an_answer_is_read_with_or_without_a_fence_and_what_is_wrong_is_told() {
        let form = Form::of::<City>().unwrap();
        assert_eq!((form.format.name.as_str(), form.wrapped), ("City", false));
        assert_eq!(form.format.schema["required"], json!(["name"]));
        assert_eq!(form.format.schema.get("$schema"), None);
        assert_eq!(form.format.schema["additionalProperties"], json!(false));
        assert_eq!(form.format.schema["properties"]["people"].get("format"), None);
        assert!(form.read::<City>(r#"{"name":"Rome","hills":7}"#).is_ok(), "what it says beyond that does no harm");
        let rome = City { name: "Rome".into(), people: Some(3) };
        assert_eq!(form.read::<City>(r#"{"name":"Rome","people":3}"#).unwrap(), rome);
        assert_eq!(form.read::<City>("```json\n{\"name\":\"Rome\",\"people\":3}\n```").unwrap(), rome);
        assert!(form.read::<City>("Rome").unwrap_err().contains("no JSON"));
        assert!(form.read::<City>("{}").unwrap_err().contains("name"));
        assert!(form.read::<City>(r#"{"name":"Rome","people":-3}"#).unwrap_err().contains("-3"));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_place_in_the_callers_own_value() {
        let cities = Form::of::<Vec<City>>().unwrap();
        let wrong = cities.read::<Vec<City>>(r#"{"value":[{"name":"Rome"},{"name":7}]}"#).unwrap_err();
        assert_eq!(wrong, r#"1.name: 7 is not of type "string""#);
        let wrong = Form::of::<Vec<u8>>().unwrap().read::<Vec<u8>>(r#"{"value":["a","b","c","d","e"]}"#).unwrap_err();
        assert_eq!(wrong.matches("is not of type").count(), 3, "the first three: {wrong}");
        // The schema takes it, and the type does not.
        #[derive(Debug, Deserialize, JsonSchema)]
        struct Port {
            #[serde(rename = "port")]
            #[schemars(with = "u32")]
            _port: u16,
        }
        let wrong = Form::of::<Port>().unwrap().read::<Port>(r#"{"port":65536}"#).unwrap_err();
        assert!(wrong.contains("65536"), "{wrong}");
    }

    #[test]
    fn an_error_shows_the_head_of_a_long_answer() {
        let told = |answer: String| StructuredError::Misfit { reason: "it is odd".to_owned(), answer }.to_string();
        let whole = told("ä".repeat(200));
        assert!(whole.ends_with(&format!("it is odd; the answer was: {}", "ä".repeat(200))), "{whole}");
        let cut = told("ä".repeat(201));
        assert!(cut.ends_with(&format!("the answer was: {}…", "ä".repeat(200))), "{cut}");
    }

    #[test]
    fn what_is_no_object_is_wrapped_into_one() {
        let form = Form::of::<Vec<City>>().unwrap();
        assert!(form.wrapped);
        assert_eq!(form.format.schema["type"], "object");
        let cities: Vec<City> = form.read(r#"{"value":[{"name":"Rome"}]}"#).unwrap();
        assert_eq!(cities, [City { name: "Rome".into(), people: None }]);
        assert_eq!(Form::of::<bool>().unwrap().read::<bool>(r#"{"value":true}"#), Ok(true));
        assert!(form.read::<Vec<City>>("[]").is_err());
        #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
        #[serde(untagged)]
        enum Nested {
            Leaf(u8),
            List(Vec<Nested>),
        }
        let form = Form::of::<Nested>().unwrap();
        let nested: Nested = form.read(r#"{"value":[1,[2]]}"#).unwrap();
        assert_eq!(nested, Nested::List(vec![Nested::Leaf(1), Nested::List(vec![Nested::Leaf(2)])]));
    }
}
