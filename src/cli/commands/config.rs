//! `playhouse config show`, and the configuration for every other command.

use std::path::PathBuf;

use playhouse::config::{Config, HeldBack, HookSetting, NamedRow, Origin, Problems, Row, Sources};
use serde_json::{Value, json};

use crate::cli::args::{Flags, SharedArgs, ShowArgs};
use crate::cli::exit::Exit;
use crate::cli::folders::{here, real_folder};
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::text::{Tint, error_line, spelled_out};
use crate::cli::terminal::view::write_out;

/// The configuration, with the project's file looked for from `project` upwards.
pub fn load(shared: &SharedArgs, flags: Flags, project: Option<PathBuf>) -> Result<Config, Exit> {
    let data_dir = shared.data_dir.clone().map(|folder| ("--data-dir", folder.into_os_string()));
    let flags = flags.into_iter().chain(data_dir).collect();
    let sources = Sources { file: shared.config.clone(), project, flags, ..Sources::of_this_process() };
    Config::load(&sources).map_err(refusal)
}

/// One line for each problem.
fn refusal(Problems(mut problems): Problems) -> Exit {
    let last = problems.pop();
    for problem in problems {
        error_line("error: ", &problem.to_string(), Tint::Red);
    }
    Exit::Refused(last.map(|problem| problem.to_string()).unwrap_or_default())
}

/// Prints what `run` would use.
pub fn show(args: &ShowArgs, shared: &SharedArgs) -> Result<(), Exit> {
    let start = args.settings.cwd.as_deref().map_or_else(here, real_folder)?;
    let config = load(shared, args.settings.flags(), Some(start))?;
    let text = match (args.json, args.origin) {
        (true, _) => {
            let (rows, named) = (config.rows(), config.named.rows());
            let rows = rows.iter().map(object).chain(named.iter().map(named_object));
            lines(rows.chain(config.hooks.iter().map(hook_object)).collect())
        }
        (false, true) => {
            let rows = toml(&config.rows(), |row| format!("  # {}", spelled_out(&origin(row))));
            let behind = |origin: &Origin| format!("  # {}", spelled_out(&origin.to_string()));
            let hooks: String = config.hooks.iter().map(|hook| hook.to_toml(&behind(&hook.origin))).collect();
            rows + &named_toml(&config.named.rows(), |row| behind(row.origin)) + &hooks
        }
        (false, false) => {
            let hooks: String = config.hooks.iter().map(|hook| hook.to_toml("")).collect();
            let rows = toml(&config.rows(), |_| String::new());
            rows + &named_toml(&config.named.rows(), |_| String::new()) + &hooks
        }
    };
    write_out(&text).map_err(|error| unwritten(&error))
}

fn toml(rows: &[Row<'_>], behind: impl Fn(&Row<'_>) -> String) -> String {
    let mut text = String::new();
    let mut section = None;
    for row in rows {
        if row.key.section() != section {
            section = row.key.section();
            text.push_str(&format!("\n[{}]\n", section.unwrap_or_default()));
        }
        let name = row.key.name().rsplit('.').next().unwrap_or_default();
        match row.value.to_toml() {
            Some(value) => text.push_str(&format!("{name} = {value}{}\n", behind(row))),
            None => text.push_str(&format!("# {name} is not set: {}\n", row.key.unset())),
        }
    }
    text
}

fn lines(objects: Vec<Value>) -> String {
    objects.into_iter().map(|object| format!("{object}\n")).collect()
}

fn named_toml(rows: &[NamedRow<'_>], behind: impl Fn(&NamedRow<'_>) -> String) -> String {
    let mut text = String::new();
    let mut section = "";
    for row in rows {
        if row.section != section {
            section = &row.section;
            text.push_str(&format!("\n[{section}]\n"));
        }
        text.push_str(&format!("{} = {}{}\n", row.name, row.value.to_toml().unwrap_or_default(), behind(row)));
    }
    text
}

fn named_object(row: &NamedRow<'_>) -> Value {
    let key = format!("{}.{}", row.section, row.name);
    with_origin(json!({"key": key, "value": row.value.to_json()}), row.origin)
}

fn hook_object(hook: &HookSetting) -> Value {
    let key = format!("hooks.{}", hook.event.name());
    with_origin(json!({"key": key, "value": hook.to_json()}), &hook.origin)
}

fn origin(row: &Row<'_>) -> String {
    let held_back = row.held_back.map(|HeldBack { wanted, at }| {
        let wanted = wanted.to_toml().unwrap_or_default();
        format!("; {wanted} in {}:{} is more than a project may set", at.path.display(), at.line)
    });
    format!("{}{}", row.origin, held_back.unwrap_or_default())
}

fn object(row: &Row<'_>) -> Value {
    let mut object = with_origin(json!({"key": row.key.name(), "value": row.value.to_json()}), row.origin);
    if let Some(HeldBack { wanted, at }) = row.held_back {
        object["held_back"] = json!({"value": wanted.to_json(), "path": at.path.to_string_lossy(), "line": at.line});
    }
    object
}

fn with_origin(mut object: Value, origin: &Origin) -> Value {
    let (name, more) = match origin {
        Origin::Default => ("default", Vec::new()),
        Origin::User(at) => ("user", vec![("path", json!(at.path.to_string_lossy())), ("line", json!(at.line))]),
        Origin::Project(at) => ("project", vec![("path", json!(at.path.to_string_lossy())), ("line", json!(at.line))]),
        Origin::Environment(name) => ("environment", vec![("variable", json!(name))]),
        Origin::Flag(name) => ("flag", vec![("flag", json!(name))]),
    };
    object["origin"] = json!(name);
    for (field, value) in more {
        object[field] = value;
    }
    object
}
