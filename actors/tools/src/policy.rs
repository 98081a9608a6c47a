//! Who may do what: rules, modes and the yes of a person, weighed for one call. Changes nothing; of files
//! it only looks which one a program's name means.
//!
//! From strong to weak: a `forbid` rule, a yes for the session, an `ask` rule, an `allow` rule, the mode. A rule is the
//! name of a tool, or a name with what it may be used on: `bash(git status)`, `bash(cargo test *)`,
//! `write_file(src/**)`.

mod commands;
mod live;
pub(crate) mod off_limits;
mod rule;

use std::path::Path;

use playhouse_protocol::{GrantScope, Level, PermissionMode, Question, Restrictions, Ruling, Stance, Subject};
use playhouse_shell::Meant;

pub use crate::programs::level_here;
pub use live::LiveRules;
pub use rule::{Rule, RuleError};

use commands::Reach;

/// What is known of a call.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The tool's name, as rules have it.
    pub tool: &'a str,
    /// How much harm it can do.
    pub level: Level,
    /// What it is about.
    pub subject: &'a Subject,
    /// Where relative paths start.
    pub cwd: &'a Path,
    /// What it wants to do, for a person; a tool need not say.
    pub wants: Option<&'a str>,
    /// The guarded place that it would change, if so: rules and grants must name it to allow that.
    pub guarded: Option<&'a str>,
}

/// What a session may do as far as its journal tells.
#[derive(Clone, Copy, Debug)]
pub struct SessionPolicy<'a> {
    /// What happens to calls that no rule speaks of.
    pub mode: PermissionMode,
    /// Rules that a person's yes has added; one that cannot be read allows nothing.
    pub grants: &'a [String],
    /// Rules that the session brings with it; one that cannot be read forbids.
    pub restrictions: &'a Restrictions,
}

/// Rules of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// What runs without a question.
    pub allow: Vec<Rule>,
    /// What is asked about in any mode.
    pub ask: Vec<Rule>,
    /// What never runs, whoever says yes.
    pub forbid: Vec<Rule>,
}

impl Rules {
    /// Reads lists of rules as a configuration has them.
    pub fn parse<S: AsRef<str>>(allow: &[S], ask: &[S], forbid: &[S]) -> Result<Self, RuleError> {
        let list = |texts: &[S]| texts.iter().map(|text| Rule::parse(text.as_ref())).collect::<Result<Vec<_>, _>>();
        Ok(Self { allow: list(allow)?, ask: list(ask)?, forbid: list(forbid)? })
    }

    /// What holds for a call.
    pub fn judge(&self, facts: &Facts<'_>, held: &SessionPolicy<'_>) -> Ruling {
        if held.restrictions.ask.is_empty() && held.restrictions.forbid.is_empty() {
            return self.judge_all(facts, held);
        }
        match Self::parse(&[], &held.restrictions.ask, &held.restrictions.forbid) {
            Ok(own) => {
                let join = |ours: &[Rule], own: Vec<Rule>| ours.iter().cloned().chain(own).collect();
                let (ask, forbid) = (join(&self.ask, own.ask), join(&self.forbid, own.forbid));
                Self { allow: self.allow.clone(), ask, forbid }.judge_all(facts, held)
            }
            Err(error) => Ruling::Forbid { reason: format!("a rule of this session cannot be read: {error}") },
        }
    }

    fn judge_all(&self, facts: &Facts<'_>, held: &SessionPolicy<'_>) -> Ruling {
        let mode = held.mode;
        let reach = Reach::of(facts.subject, facts.cwd);
        let forbidden = self.forbid.iter().map(|rule| (rule.touches(facts.tool, &reach), rule));
        let forbidden: Vec<(Meant, &Rule)> = forbidden.filter(|(meant, _)| *meant > Meant::No).collect();
        if let Some((_, rule)) = forbidden.iter().find(|(meant, _)| *meant == Meant::Yes) {
            return Ruling::Forbid {
                reason: format!("`{}` is forbidden here by the rule `{rule}`; do without it", facts.tool),
            };
        }
        let granted: Vec<Rule> = held.grants.iter().filter_map(|text| Rule::parse(text).ok()).collect();
        if let Some(rule) = Rule::covering(&granted, facts, &reach) {
            return Ruling::Allow { by: format!("a yes for the session: {rule}").into() };
        }
        if let Some(rule) = self.ask.iter().find(|rule| rule.touches(facts.tool, &reach) > Meant::No) {
            // The rule would ask again however often someone says always.
            return Ruling::Ask(question(facts, &reach, GrantScope::Session, &format!(" (rule `{rule}`)")));
        }
        // What cannot be read may hide what is forbidden: nobody but a person lets it pass.
        let perhaps = forbidden.first().map(|(_, rule)| format!(" (it may be what the rule `{rule}` forbids)"));
        let is_hiding = reach.is_unproven() && self.forbid.iter().any(|rule| rule.is_about(facts.tool));
        let may_hide = is_hiding || perhaps.is_some();
        if !may_hide && let Some(rule) = Rule::covering(&self.allow, facts, &reach) {
            return Ruling::Allow { by: format!("rule {rule}").into() };
        }
        match mode.stance(facts.level) {
            Stance::Run | Stance::Ask
                if mode == PermissionMode::Strict
                    && let Some(why) = reach.why_unread() =>
            {
                Ruling::Forbid {
                    reason: format!(
                        "in the mode `strict` a command that cannot be read is refused ({why}); write simple commands of \
                         literal words, or use another tool"
                    ),
                }
            }
            Stance::Run if !may_hide => Ruling::Allow { by: mode_says(mode) },
            Stance::Run | Stance::Ask => {
                // No rule that allows would keep the next question away.
                let longest = if perhaps.is_some() { GrantScope::Session } else { GrantScope::Always };
                Ruling::Ask(question(facts, &reach, longest, &perhaps.unwrap_or_default()))
            }
            Stance::Refuse => Ruling::Forbid {
                reason: format!(
                    "`{}` is too dangerous with these arguments ({}) to be run or asked about here",
                    facts.tool, facts.level
                ),
            },
        }
    }
}

fn mode_says(mode: PermissionMode) -> std::borrow::Cow<'static, str> {
    match mode {
        PermissionMode::Strict => "mode strict".into(),
        PermissionMode::Ask => "mode ask".into(),
        PermissionMode::AutoSafe => "mode auto-safe".into(),
        PermissionMode::Yolo => "mode yolo".into(),
    }
}

/// What to ask, and for how long a yes can hold: what is dangerous, or another thing in another project, no longer than
/// the session, what cannot be read only once.
fn question(facts: &Facts<'_>, reach: &Reach<'_>, longest: GrantScope, why: &str) -> Question {
    let wants = facts.wants.map_or_else(|| format!("use `{}`", facts.tool), str::to_owned);
    // A rule that does not say what was asked would allow something else, or nothing.
    let says_it = |rules: &Vec<String>| {
        let parsed: Result<Vec<Rule>, _> = rules.iter().map(|rule| Rule::parse(rule)).collect();
        parsed.is_ok_and(|parsed| Rule::covering(&parsed, facts, reach).is_some())
    };
    let rules = reach.rules_for(facts.tool).filter(says_it);
    let longest = if reach.is_local() { longest.min(GrantScope::Session) } else { longest };
    let offer = match (&rules, facts.level) {
        (None, _) => GrantScope::Once,
        (Some(_), Level::Dangerous | Level::Forbidden) => longest.min(GrantScope::Session),
        (Some(_), Level::None | Level::ReadOnly | Level::Write | Level::Execute) => longest,
    };
    Question { reason: format!("{wants}{why}"), level: facts.level, offer, rules: rules.unwrap_or_default() }
}

#[cfg(test)]
#[path = "policy/policy_tests.rs"]
mod tests;
