//! What a program gives its tools beside the arguments of a call: values of its own, found by their type.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that the program gave to its tools, such as a pool of connections to a database. Clones are the same value.
///
/// A function under `#[tool]` takes it as a parameter, `State(pool): State<Pool>`; a tool written by hand names its type in
/// `Tool::states` and gets it by [`ToolContext::state`](crate::ToolContext::state).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct State<T>(
    /// The value, shared with whoever else takes it.
    pub Arc<T>,
);

impl<T> State<T> {
    /// A state of its own, as a test gives one to the function of a tool.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The type of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// That of `State<T>`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// The name of `T`, for people: `app::Pool`.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// States, at most one of each type. Clones are cheap.
#[derive(Clone, Default)]
pub struct States(Option<Arc<BTreeMap<TypeId, Given>>>);

#[derive(Clone)]
struct Given {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl States {
    /// None at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// These and one more, in the place of one of its type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        let StateType { id, name } = StateType::of::<T>();
        Arc::make_mut(self.0.get_or_insert_default()).insert(id, Given { name, value: Arc::new(value) });
        self
    }

    /// These, and those of `others` of whose types there is none here.
    #[must_use]
    pub fn over(&self, others: &States) -> States {
        match (&self.0, &others.0) {
            (None, _) => others.clone(),
            (_, None) => self.clone(),
            (Some(own), Some(others)) => {
                let mut all = BTreeMap::clone(others);
                all.extend(own.iter().map(|(id, given)| (*id, given.clone())));
                Self(Some(Arc::new(all)))
            }
        }
    }

    /// The state of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let given = self.0.as_ref()?.get(&TypeId::of::<T>())?;
        given.value.clone().downcast().ok().map(State)
    }

    /// Whether there is one of this type.
    pub fn has(&self, state: StateType) -> bool {
        self.0.as_ref().is_some_and(|all| all.contains_key(&state.id))
    }

    /// The names of their types, in the order of the alphabet.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.iter().flat_map(|all| all.values()).map(|given| given.name).collect();
        names.sort_unstable();
        names
    }
}

/// Their types alone: a value may be a secret.
impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Pool(u8);

    #[test]
    fn a_state_is_found_by_its_type_and_shared() {
        let states = States::new().with(Pool(1)).with("text");
        let (one, other) = (states.get::<Pool>().unwrap(), states.clone().get::<Pool>().unwrap());
        assert!(Arc::ptr_eq(&one.0, &other.0));
        assert_eq!((one.0.0, *states.get::<&str>().unwrap()), (1, "text"));
        assert!(states.has(StateType::of::<Pool>()) && !states.has(StateType::of::<String>()));
        assert_eq!(states.get::<String>(), None);
        assert_eq!(States::new().get::<Pool>(), None);
    }

    #[test]
    fn a_later_one_of_a_type_takes_the_place_of_the_earlier() {
        let before = States::new().with(Pool(1));
        let after = before.clone().with(Pool(2));
        assert_eq!((before.get().unwrap().0, after.get().unwrap().0), (Arc::new(Pool(1)), Arc::new(Pool(2))));
    }

    #[test]
    fn what_is_over_others_counts_before_them() {
        let house = States::new().with(Pool(1)).with(7_u64);
        let agent = States::new().with(Pool(2));
        let both = agent.over(&house);
        assert_eq!((both.get::<Pool>().unwrap().0.0, *both.get::<u64>().unwrap()), (2, 7));
        assert_eq!(agent.over(&States::new()).get::<Pool>().unwrap().0.0, 2);
        assert_eq!(States::new().over(&house).get::<Pool>().unwrap().0.0, 1);
        assert_eq!(house.get::<Pool>().unwrap().0.0, 1, "nobody else is changed");
    }

    #[test]
    fn only_types_are_shown() {
        let shown = format!("{:?}", States::new().with("hunter2".to_owned()));
        assert!(shown.contains("String") && !shown.contains("hunter2"), "{shown}");
    }
}
