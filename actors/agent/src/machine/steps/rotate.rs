//! A change of session: the new journal opens with the conversation, then the old one ends. A crash in between
//! leaves the old session as it was.

use std::sync::Arc;

use playhouse_protocol::entry::{Continues, FORMAT_VERSION, Opened, Settings};
use playhouse_protocol::{Entry, EntryBody, InputId, SessionId};

use crate::machine::state::flight::{Deferred, Rotation};
use crate::machine::{Durable, Effect, Holes, Machine};

impl Machine {
    pub(super) fn rotate(&mut self, input_id: InputId, to: SessionId) {
        if self.durable.session_id == to {
            self.act(Effect::Ack { input_id });
            return;
        }
        let queued = self.durable.steering.iter().chain(&self.durable.follow_ups).cloned().collect();
        // The new journal is whole whatever happened to the old one.
        let messages = self.view();
        let session = self.durable.session_id.clone();
        let continues = self.durable.tail.clone().map(|entry| Box::new(Continues { session, entry }));
        let opened = Opened {
            version: FORMAT_VERSION,
            agent_id: self.durable.agent_id.clone(),
            session_id: to.clone(),
            settings: self.settings_with_grants(),
            spawned_by: self.durable.spawned_by.clone(),
            continues,
            messages: messages.as_slice().to_vec(),
            queued,
            seen: self.durable.seen.iter().cloned().chain([input_id.clone()]).collect(),
            plan: self.durable.plan().to_vec(),
        };
        let entry = Arc::new(Entry {
            // A change that a crash cut short may be asked for again: the new opening must not pass for the old one.
            id: match &self.durable.tail {
                Some(tail) => format!("{to}#{input_id}#{tail}").into(),
                None => format!("{to}#{input_id}#").into(),
            },
            loop_id: None,
            parent: None,
            at: self.now.wall,
            body: EntryBody::Opened(Arc::new(opened)),
        });
        let items = vec![Deferred::Entry { entry: entry.clone(), events: Vec::new() }];
        self.enqueue(to, [entry.clone()].into(), items);
        self.flight.rotation = Some(Box::new(Rotation::Opening { input_id, opened: entry }));
    }

    /// The settings for a session that goes on with what this one was allowed.
    pub fn settings_with_grants(&self) -> Arc<Settings> {
        if self.durable.grants() == self.durable.settings.grants {
            return self.durable.settings.clone();
        }
        Arc::new(Settings { grants: self.durable.grants().to_vec(), ..self.durable.settings.as_ref().clone() })
    }

    /// Takes the next step of a change of session, when everything is durable.
    pub(super) fn rotation_committed(&mut self) {
        match self.flight.rotation.take().map(|rotation| *rotation) {
            None => {}
            Some(Rotation::Opening { input_id, opened }) => {
                let EntryBody::Opened(first) = &opened.body else { return };
                if !self.durable.journaled {
                    // The old session never had a journal: there is nothing to end.
                    self.move_to(first, &opened, input_id);
                    return;
                }
                self.push(EntryBody::RotatedTo { session: first.session_id.clone() });
                self.flight.rotation = Some(Box::new(Rotation::Ending { input_id, opened }));
            }
            Some(Rotation::Ending { input_id, opened }) => {
                let EntryBody::Opened(first) = &opened.body else { return };
                self.move_to(first, &opened, input_id);
            }
        }
    }

    fn move_to(&mut self, first: &Opened, opened: &Entry, input_id: InputId) {
        self.opened = None;
        self.holes = Holes::None;
        self.durable = Durable::new(first);
        self.durable.apply(opened);
        self.act(Effect::Rotated { to: first.session_id.clone() });
        self.act(Effect::Ack { input_id });
    }
}
