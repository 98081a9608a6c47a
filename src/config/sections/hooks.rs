//! `[[hooks.EVENT]]` of the user's file: commands that are told of what happens, in Claude Code's own shape.

use std::time::Duration;

use playhouse_agent::{COMMAND_TIMEOUT, CommandHook, HookEvent, Hooks, Matcher};
use serde_json::{Value, json};
use toml_edit::{Item, TableLike};

use crate::config::keys::shown::{Shown, name_in_toml};
use crate::config::keys::value::Bad;
use crate::config::problem::Problem;
use crate::config::sources::file::FileLayer;
use crate::config::{Config, Origin, Position};
use crate::nearest::nearest;

/// The name of the section.
pub(crate) const SECTION: &str = "hooks";
/// The keys of a group.
const GROUP_KEYS: [&str; 2] = ["matcher", "hooks"];
/// The keys of a hook.
const HOOK_KEYS: [&str; 3] = ["type", "command", "timeout"];
/// The longest a command may take.
const MOST_SECONDS: u64 = 3_600;
/// An event of Claude Code that nothing here could tell a command of.
const PRE_COMPACT: &str = "PreCompact";

const PATTERN: &str = "a pattern of tools' names, such as `bash|edit_file`";
const KIND: &str = "`command`";
const COMMAND: &str = "a command line";
const SECONDS: &str = "whole seconds from 1 to 3600";

/// A command that is told of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct HookSetting {
    /// What the command is told of.
    pub event: HookEvent,
    /// The command, with the tools it is for and how long it may take.
    pub hook: CommandHook,
    /// Where it came from.
    pub origin: Origin,
}

impl HookSetting {
    /// As a file has it, in a group of its own.
    pub fn to_toml(&self, behind: &str) -> String {
        let (event, hook) = (self.event.name(), &self.hook);
        let text = |text: &str| Shown::Text(text.to_owned()).to_toml().unwrap_or_default();
        let matcher = match self.event.has_matcher() {
            true => format!("matcher = {}\n", text(hook.matcher.as_str())),
            false => String::new(),
        };
        let (command, timeout) = (text(&hook.command), hook.timeout.as_secs());
        format!(
            "\n[[hooks.{event}]]\n{matcher}[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {command}{behind}\n\
             timeout = {timeout}\n"
        )
    }

    /// As `config show --json` writes it.
    pub fn to_json(&self) -> Value {
        let hook = &self.hook;
        json!({"matcher": hook.matcher.as_str(), "command": hook.command, "timeout": hook.timeout.as_secs()})
    }
}

impl Config {
    /// The hooks of an agent: the user's commands.
    pub(crate) fn hooks(&self) -> Hooks {
        self.hooks.iter().fold(Hooks::new(), |hooks, one| hooks.command(one.event, one.hook.clone()))
    }
}

impl FileLayer<'_> {
    /// Reads `[hooks]`; what is wrong in it is noted, and the rest is read.
    pub(crate) fn hooks(&mut self, table: &dyn TableLike) {
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let at = self.source.at(key.span());
            let full = format!("{SECTION}.{}", name_in_toml(&name.chars().take(60).collect::<String>()));
            let Some(event) = HookEvent::named(name) else {
                self.problems.push(Problem::InSection { at, name: full, reason: no_event(name) });
                continue;
            };
            for group in self.tables(item, &full, at) {
                self.group(event, &full, group);
            }
        }
    }

    fn group(&mut self, event: HookEvent, section: &str, (table, at): (&dyn TableLike, Position)) {
        let mut matcher = Some(Matcher::any());
        let mut hooks = Vec::new();
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let key_at = self.source.at(key.span());
            match name {
                "matcher" => matcher = self.matcher(event, section, item),
                "hooks" => {
                    let full = format!("{section}.hooks");
                    for (inner, at) in self.tables(item, &full, key_at) {
                        hooks.extend(self.hook(&full, inner, at));
                    }
                }
                _ => self.unknown(section, name, &GROUP_KEYS, key_at),
            }
        }
        if !table.contains_key("hooks") {
            let reason = format!("it has no hooks: write [[{section}.hooks]] with a `command` below it");
            self.problems.push(Problem::InSection { at, name: section.to_owned(), reason });
        }
        if let Some(matcher) = matcher {
            self.config.hooks.extend(hooks.into_iter().map(|(hook, origin): (CommandHook, Origin)| HookSetting {
                event,
                hook: hook.matcher(matcher.clone()),
                origin,
            }));
        }
    }

    fn matcher(&mut self, event: HookEvent, section: &str, item: &Item) -> Option<Matcher> {
        let full = format!("{section}.matcher");
        let pattern = self.read(&full, item, PATTERN, |given| given.text())?.value;
        let at = self.source.at(item.span());
        match Matcher::new(pattern) {
            Ok(matcher) if event.has_matcher() || matcher.is_any() => Some(matcher),
            Ok(_) => {
                let reason = format!("{} has nothing to match: leave `matcher` out", event.name());
                self.problems.push(Problem::InSection { at, name: full, reason });
                None
            }
            Err(error) => {
                self.problems.push(Problem::InSection { at, name: full, reason: error.to_string() });
                None
            }
        }
    }

    fn hook(&mut self, section: &str, table: &dyn TableLike, at: Position) -> Option<(CommandHook, Origin)> {
        let (mut command, mut timeout) = (None, COMMAND_TIMEOUT);
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let full = format!("{section}.{name}");
            match name {
                "type" => {
                    self.read(&full, item, KIND, |given| given.one_of(&[("command", ())]));
                }
                "command" => {
                    command = self.read(&full, item, COMMAND, |given| {
                        let text = given.text()?;
                        let is_one = !text.trim().is_empty() && !text.contains('\0');
                        if is_one { Ok(text) } else { Err(Bad::NotThis) }
                    });
                }
                "timeout" => {
                    let seconds = self.read(&full, item, SECONDS, |given| given.whole(1, MOST_SECONDS));
                    timeout = seconds.map_or(timeout, |seconds| Duration::from_secs(seconds.value));
                }
                _ => self.unknown(section, name, &HOOK_KEYS, self.source.at(key.span())),
            }
        }
        if !table.contains_key("command") {
            let reason = "it has no `command`: say what to run".to_owned();
            self.problems.push(Problem::InSection { at, name: section.to_owned(), reason });
        }
        let command = command?;
        Some((CommandHook::new(command.value).timeout(timeout), command.origin))
    }

    /// The tables of a list, however it is written.
    fn tables<'t>(&mut self, item: &'t Item, name: &str, at: Position) -> Vec<(&'t dyn TableLike, Position)> {
        let inline = item.as_array().map(|values| {
            values.iter().map(|value| value.as_inline_table().map(|table| (table as &dyn TableLike, value.span())))
        });
        let tables: Option<Vec<_>> = match (item.as_array_of_tables(), inline) {
            (Some(tables), _) => Some(tables.iter().map(|table| (table as &dyn TableLike, table.span())).collect()),
            (None, Some(inline)) => inline.collect(),
            (None, None) => None,
        };
        let Some(tables) = tables else {
            let reason = format!("it is a list: write [[{name}]] with two brackets");
            self.problems.push(Problem::InSection { at, name: name.to_owned(), reason });
            return Vec::new();
        };
        tables.into_iter().map(|(table, span)| (table, self.source.at(span))).collect()
    }
}

fn no_event(name: &str) -> String {
    if name == PRE_COMPACT {
        return "there is no compaction yet, so nothing would run it: leave it out".to_owned();
    }
    let events = HookEvent::ALL.map(HookEvent::name);
    match nearest(name, events.iter().map(|event| (*event, *event))) {
        Some(near) => format!("there is no such event: did you mean `{}`?", near.candidate),
        None => format!("there is no such event: there is {}", events.join(", ")),
    }
}
