//! docs/configuration.md says what the table says.

use playhouse::config::{ByProject, Config, Key, Row, keys};

fn cell(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { text.to_owned() }
}

fn line(row: &Row<'_>) -> String {
    let key: &Key = row.key;
    let default = match row.value.to_toml() {
        Some(value) => format!("`{value}`"),
        None => key.unset().to_owned(),
    };
    let flags: Vec<String> = key.flags().iter().map(|flag| format!("`{flag}`")).collect();
    let project = match key.by_project() {
        ByProject::Yes => "yes",
        ByProject::Only(what) => what,
        ByProject::No => "no",
    };
    let (name, takes, variable, flags) = (key.name(), key.takes(), key.variable(), cell(&flags.join(", ")));
    format!("| `{name}` | {takes} | {default} | `{variable}` | {flags} | {project} |")
}

#[test]
fn the_documentation_has_exactly_the_keys_of_the_table() {
    let text = include_str!("../../docs/configuration.md");
    let written: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let config = Config::default();
    let expected: Vec<String> = config.rows().iter().map(line).collect();
    assert_eq!(written, expected, "write this:\n{}\n", expected.join("\n"));
}

#[test]
fn the_example_in_the_documentation_is_a_file_that_sets_every_key() {
    let text = include_str!("../../docs/configuration.md");
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let place = super::support::Place::new();
    place.user(example);
    let shown = place.shown(&[]);
    let by_default: Vec<&String> =
        shown.iter().filter(|(_, row)| row["origin"] == "default").map(|(key, _)| key).collect();
    assert_eq!(by_default, Vec::<&String>::new());
    let open: Vec<&str> =
        shown.keys().map(String::as_str).filter(|key| key.contains('"') || key.contains("-")).collect();
    let model = |key: &str| format!("models.\"openai/gpt-5\".{key}");
    let mut expected: Vec<String> =
        ["cache_read", "cache_write", "context_window", "images", "input", "max_tokens", "output", "reasoning_summary"]
            .map(model)
            .into();
    expected.push("providers.anthropic.headers.anthropic-beta".to_owned());
    assert_eq!((open, shown.len()), (expected.iter().map(String::as_str).collect(), keys().len() + expected.len()));
}
