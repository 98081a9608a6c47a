//! Rules that name no tool, which would do nothing: an error with the nearest name, told where they stand.

use playhouse_tools::policy::Rule;

use crate::config::Config;
use crate::config::problem::Problem;
use crate::tool_names::{is_tool, no_tool};

/// The tools that rules may name, and the rules that were looked at.
pub(super) struct RuleNames<'a> {
    /// Tools of the program's own.
    own: &'a [String],
    seen: Vec<String>,
}

impl<'a> RuleNames<'a> {
    pub(super) fn new(own: &'a [String]) -> Self {
        Self { own, seen: Vec::new() }
    }

    /// Looks at the rules that a layer has added.
    pub(super) fn check(&mut self, config: &Config, problems: &mut Vec<Problem>) {
        let rules = &config.permissions;
        for (key, list) in [("allow", &rules.allow), ("ask", &rules.ask), ("forbid", &rules.forbid)] {
            for text in &list.value {
                if self.seen.contains(text) {
                    continue;
                }
                self.seen.push(text.clone());
                // What is no rule at all was told when it was read.
                let Ok(rule) = Rule::parse(text) else { continue };
                if let Some(name) = rule.tools().iter().find(|name| !is_tool(name, self.own)) {
                    let (at, key) = (list.origin.clone(), format!("permissions.{key}"));
                    let reason = format!("the rule `{text}` would do nothing: {}", no_tool(name, self.own));
                    problems.push(Problem::Unusable { at, key, reason });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_tool_that_is_built_in_the_programs_own_or_a_servers() {
        let mut config = Config::default();
        config.permissions.allow.value = ["bash", "Bash(ls)", "deploy", "git__log", "Edit"].map(str::to_owned).to_vec();
        config.permissions.forbid.value = ["deplyo(x)", "bsh"].map(str::to_owned).to_vec();
        let own = ["deploy".to_owned()];
        let mut names = RuleNames::new(&own);
        let mut problems = Vec::new();
        names.check(&config, &mut problems);
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("there is no tool `deplyo` (did you mean `deploy`?)"), "{told:?}");
        assert!(told[1].contains("there is no tool `bsh` (did you mean `bash`?)"), "{told:?}");
        // Each is told once, by the layer that brought it.
        names.check(&config, &mut problems);
        assert_eq!(problems.len(), 2);
    }
}
