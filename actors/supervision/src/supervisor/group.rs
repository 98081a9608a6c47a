//! Restarting siblings together: ended in reverse order, started again in order.
//!
//! There is one group at a time. A member that dies while its group is being restarted makes the group begin
//! again; members that were down stay in it. A child that is parked stays parked until it is resumed, and in a
//! group it takes the members that cannot work without it along.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::state::{Child, Phase, State, Then, later};
use super::{Step, Strategy};
use crate::child::Task;
use crate::restart::Restart;
use crate::tree::NodeState;

/// Children, by place, that are to be started in order once all of them are down and the pause is over.
pub(super) struct Group {
    to_start: BTreeSet<u64>,
    to_end: BTreeSet<u64>,
    pause: Pause,
}

enum Pause {
    Over,
    Until { token: u64, _timer: Task },
}

impl Group {
    pub(super) fn len(&self) -> usize {
        self.to_start.len() + self.to_end.len()
    }
}

impl State {
    fn group_mut(&mut self) -> &mut Group {
        self.group.get_or_insert_with(|| Group {
            to_start: BTreeSet::new(),
            to_end: BTreeSet::new(),
            pause: Pause::Over,
        })
    }

    /// Those that share the fate of the child at `place`, itself included, the last started first.
    fn fellows(&self, place: u64) -> Vec<(u64, Arc<str>)> {
        let mut fellows = self.in_order();
        fellows.retain(|(other, _)| match self.strategy {
            Strategy::OneForOne => *other == place,
            Strategy::OneForAll => true,
            Strategy::RestForOne => *other >= place,
        });
        fellows.reverse();
        fellows
    }

    /// A new child starts after everything that is to start before it.
    pub(super) fn join_group(&mut self, place: u64) {
        self.group_mut().to_start.insert(place);
        self.advance();
    }

    pub(super) fn restart_group(&mut self, culprit: &str, after: Duration, cause: &str) {
        let Some(place) = self.children.get(culprit).map(|child| child.place) else { return };
        let mut ending = Vec::new();
        for (place, id) in self.fellows(place) {
            let Some(child) = self.children.get_mut(&id) else { continue };
            match &child.phase {
                // On their way, or resting until resumed.
                Phase::Ending { .. } | Phase::Parked { .. } => continue,
                Phase::Alive { cell } if child.spec.restart == Restart::Temporary => {
                    ending.push((id.clone(), cell.clone(), Then::Leave(Vec::new())));
                    self.group_mut().to_end.insert(place);
                    continue;
                }
                Phase::Alive { cell } => {
                    ending.push((id.clone(), cell.clone(), Then::Hold));
                    child.cause = Some(format!("`{culprit}`, which it works with, was restarted: {cause}").into());
                    child.node.set_state(NodeState::Restarting);
                    self.group_mut().to_end.insert(place);
                }
                Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Held => {
                    if &*id == culprit {
                        child.cause = Some(cause.into());
                    }
                    child.node.set_state(NodeState::Restarting);
                    self.hold(&id);
                }
            }
            self.group_mut().to_start.insert(place);
        }
        if !ending.is_empty() {
            self.end_each(ending);
        }
        let token = self.token();
        let timer = later(&self.myself, after, Step::GroupDue { token });
        self.group_mut().pause = Pause::Until { token, _timer: timer };
    }

    pub(super) fn park_group(&mut self, culprit: &str, reason: String) {
        let Some(place) = self.children.get(culprit).map(|child| child.place) else { return };
        let culprit: Arc<str> = culprit.into();
        let because: Arc<str> = format!("`{culprit}`, which it works with, is parked: {reason}").into();
        self.park(&culprit, reason, None);
        let mut ending = Vec::new();
        for (place, id) in self.fellows(place) {
            let Some(child) = self.children.get_mut(&id) else { continue };
            let Child { spec, phase, .. } = child.as_mut();
            let park = || Then::Park { reason: because.clone(), with: culprit.clone() };
            match phase {
                Phase::Alive { cell } => {
                    let never = spec.restart == Restart::Temporary;
                    ending.push((id, cell.clone(), if never { Then::Leave(Vec::new()) } else { park() }));
                    self.group_mut().to_end.insert(place);
                }
                Phase::Ending { then: then @ Then::Hold, .. } => *then = park(),
                Phase::Ending { then: Then::Leave(_) | Then::Park { .. }, .. } | Phase::Parked { .. } => {}
                Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Held => {
                    self.park(&id, because.to_string(), Some(culprit.clone()));
                }
            }
        }
        if !ending.is_empty() {
            self.end_each(ending);
        }
        self.advance();
    }

    /// Starts a parked child and those that were parked with it, in order.
    pub(super) fn resume_group(&mut self, culprit: &Arc<str>) {
        for (place, id) in self.in_order() {
            let Some(child) = self.children.get_mut(&id) else { continue };
            let resumed = match &mut child.phase {
                Phase::Parked { with } => id == *culprit || with.as_ref() == Some(culprit),
                Phase::Ending { then: then @ Then::Park { .. }, .. } => {
                    if matches!(then, Then::Park { with, .. } if with == culprit) {
                        *then = Then::Hold;
                        child.cause = Some("resumed".into());
                        self.group_mut().to_start.insert(place);
                    }
                    false
                }
                Phase::Ending { then: Then::Leave(_) | Then::Hold, .. }
                | Phase::Alive { .. }
                | Phase::Starting { .. }
                | Phase::Waiting { .. }
                | Phase::Held => false,
            };
            if resumed {
                self.renew(&id);
                self.group_mut().to_start.insert(place);
            }
        }
        self.advance();
    }

    pub(super) fn group_due(&mut self, token: u64) {
        if let Some(group) = &mut self.group
            && matches!(group.pause, Pause::Until { token: awaited, .. } if awaited == token)
        {
            group.pause = Pause::Over;
            self.advance();
        }
    }

    pub(super) fn left_group(&mut self, place: u64) {
        if let Some(group) = &mut self.group {
            group.to_end.remove(&place);
        }
    }

    /// Starts the next member whose turn it is.
    pub(super) fn advance(&mut self) {
        while let Some(group) = &mut self.group {
            if !group.to_end.is_empty() || matches!(group.pause, Pause::Until { .. }) {
                return;
            }
            let Some(place) = group.to_start.first().copied() else {
                self.group = None;
                return;
            };
            let next = self.children.iter().find(|(_, child)| child.place == place);
            match next.map(|(id, child)| (id, &child.phase)) {
                Some((id, Phase::Held)) => {
                    let id = id.clone();
                    return self.begin(&id);
                }
                Some((_, Phase::Starting { .. })) => return,
                Some((
                    _,
                    Phase::Alive { .. } | Phase::Ending { .. } | Phase::Parked { .. } | Phase::Waiting { .. },
                ))
                | None => {
                    group.to_start.remove(&place);
                }
            }
        }
    }
}
