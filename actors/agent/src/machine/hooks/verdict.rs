//! What hooks say: each point has its own words, so that none can say what means nothing there.

use std::sync::Arc;

use playhouse_protocol::Ruling;
use serde_json::Value;

use crate::machine::HookPoint;

/// A hook's answer, under the name of its point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Before a run, a turn, or the showing of a partial result.
    Permit(Permit),
    /// Of what only follows: after a run, a turn, or the showing of a partial result, and when a provider failed.
    Noted,
    /// Of a call that is about to start.
    BeforeTool(BeforeTool),
    /// Of a call that has its result.
    AfterTool(AfterTool),
    /// Of each input that it was given.
    Filter(Filtered),
    /// Of a call, by the agent's own policy.
    Policy(Ruling),
    /// When a run would stop.
    Stop(MayStop),
    /// Before the first prompt of a session.
    SessionStart(SessionStart),
    /// Of a call that a person is to be asked about, by its tool.
    Check(Checked),
}

/// Whether what is about to happen may happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It happens, as far as this hook is concerned.
    Yes,
    /// It does not happen.
    No {
        /// For people: the outcome of a run that may not begin or go on has it.
        reason: String,
    },
}

/// What becomes of a call that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeTool {
    /// It runs as it is.
    Run,
    /// It does not run, and the run goes on.
    Block {
        /// Why; the model gets this.
        reason: String,
    },
    /// It runs after a yes to this.
    Ask {
        /// What the person is told who is asked.
        reason: String,
        /// The arguments to run it with, if they are others.
        args: Option<Arc<Value>>,
    },
    /// It runs with these arguments, if it may.
    Amend {
        /// All arguments, those that stay the same included.
        args: Arc<Value>,
    },
    /// It does not run, and the run ends.
    Halt {
        /// Why; the run's outcome has it, and the model gets it.
        reason: String,
    },
}

/// What a look at a call shows before anyone is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing that speaks against it.
    Possible,
    /// That it would fail.
    Fails {
        /// The tool's own error; the model gets this.
        reason: String,
    },
}

/// What follows from a call that ran. It cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTool {
    /// The result stays as it is.
    Done,
    /// The model is told this with the result.
    Say {
        /// Added to the result for the model, after its own content.
        text: String,
    },
    /// The run ends: no further tool starts, and no further turn.
    Halt {
        /// Why; the run's outcome has it.
        reason: String,
    },
}

/// What filters say of the inputs they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filtered {
    /// All of them are taken as they are.
    PassAll,
    /// Each has its own verdict. One that has none is not taken.
    Each(Vec<FilterVerdict>),
    /// None of them is taken.
    RejectAll {
        /// Why; observers get it, and of a prompt the run's outcome.
        reason: String,
    },
}

/// What an input filter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// Take it as it is.
    Pass,
    /// Take it, with this appended to its last user message.
    Warn(String),
    /// Don't take it, for this reason.
    Reject(String),
}

/// Whether a run that is done may stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MayStop {
    /// It stops, and its answer counts.
    Yes,
    /// It goes on, with this as a user's message.
    GoOn {
        /// What the model is told.
        reason: String,
    },
    /// It ends without an answer.
    Halt {
        /// Why; the run's outcome has it.
        reason: String,
    },
}

/// What a hook says before the first prompt of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStart {
    /// With its first prompt as it is.
    Plain,
    /// With this added to its first prompt.
    Say {
        /// Appended to the prompt's last user message.
        text: String,
    },
    /// Not at all: the run ends.
    Halt {
        /// Why; the run's outcome has it.
        reason: String,
    },
}

impl Filtered {
    /// One verdict per input. A filter that did not give one rejects: it fails closed.
    pub(in crate::machine) fn each(self, inputs: usize) -> Vec<FilterVerdict> {
        match self {
            Self::PassAll => vec![FilterVerdict::Pass; inputs],
            Self::RejectAll { reason } => vec![FilterVerdict::Reject(reason); inputs],
            Self::Each(mut verdicts) => {
                verdicts.resize(inputs, FilterVerdict::Reject("the filter gave no verdict".to_owned()));
                verdicts
            }
        }
    }
}

impl HookPoint {
    /// What it means that a hook crashed or did not answer: no, but for a check, which allows nothing. A run that may not be known to be done is ended, not
    /// sent back to the model.
    pub(crate) fn failed(self, reason: &str) -> Verdict {
        let reason = reason.to_owned();
        match self {
            Self::BeforeLoop | Self::BeforeTurn | Self::BeforeUpdate => Verdict::Permit(Permit::No { reason }),
            Self::AfterLoop | Self::AfterTurn | Self::AfterUpdate | Self::OnError => Verdict::Noted,
            Self::BeforeTool => Verdict::BeforeTool(BeforeTool::Block { reason }),
            Self::AfterTool => Verdict::AfterTool(AfterTool::Done),
            Self::Filter => Verdict::Filter(Filtered::RejectAll { reason }),
            Self::Policy => Verdict::Policy(Ruling::Forbid { reason }),
            Self::Stop => Verdict::Stop(MayStop::Halt { reason }),
            Self::SessionStart => Verdict::SessionStart(SessionStart::Halt { reason }),
            // The check only spares questions: what it does not know, the call's own run shows.
            Self::Check => Verdict::Check(Checked::Possible),
        }
    }
}

/// The answer to the question that a point asks.
pub(in crate::machine) trait PointAnswer: Sized {
    /// Where there is no such hook.
    fn unasked() -> Self;
    /// Out of a verdict; `None` for one of another point.
    fn of(verdict: Verdict) -> Option<Self>;
}

macro_rules! answers {
    ($($answer:ty: $unasked:expr, $verdict:pat => $of:expr;)*) => {
        $(impl PointAnswer for $answer {
            fn unasked() -> Self {
                $unasked
            }

            fn of(verdict: Verdict) -> Option<Self> {
                match verdict {
                    $verdict => Some($of),
                    _ => None,
                }
            }
        })*
    };
}

answers! {
    Permit: Self::Yes, Verdict::Permit(answer) => answer;
    (): (), Verdict::Noted => ();
    BeforeTool: Self::Run, Verdict::BeforeTool(answer) => answer;
    AfterTool: Self::Done, Verdict::AfterTool(answer) => answer;
    Filtered: Self::PassAll, Verdict::Filter(answer) => answer;
    MayStop: Self::Yes, Verdict::Stop(answer) => answer;
    SessionStart: Self::Plain, Verdict::SessionStart(answer) => answer;
    Checked: Self::Possible, Verdict::Check(answer) => answer;
}

/// What a verdict of another point means at this one: that the hook failed.
pub(in crate::machine) fn answer_at<A: PointAnswer>(point: HookPoint, verdict: Verdict) -> A {
    let failed = || A::of(point.failed("the hook answered for another point"));
    A::of(verdict).or_else(failed).unwrap_or_else(A::unasked)
}
