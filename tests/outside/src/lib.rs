//! Typed tools as someone writes them who depends on `playhouse` alone: no serde, no schemars, no async-trait. Compiling
//! it is most of the test.

use playhouse::prelude::*;
use playhouse::schemars::JsonSchema;
use playhouse::serde::Deserialize;

/// A place on a map.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "playhouse::serde")]
#[schemars(crate = "playhouse::schemars")]
pub struct Place {
    /// Steps to the east.
    pub x: i32,
    /// Steps to the north.
    pub y: i32,
}

/// Adds two numbers.
#[tool(read_only)]
pub async fn add(a: i64, b: Option<i64>) -> i64 {
    a + b.unwrap_or_default()
}

/// Says how far it is from one place to another, in steps along streets.
#[tool(name = "walk", timeout_secs = 5, ask = "go for a walk")]
pub async fn distance(from: Place, to: Place, ctx: &ToolContext) -> Result<String, std::num::TryFromIntError> {
    ctx.progress("walking");
    let steps = i64::from(from.x).abs_diff(to.x.into()) + i64::from(from.y).abs_diff(to.y.into());
    u8::try_from(steps).map(|steps| format!("{steps} steps"))
}

/// Where the crate has another name, as under `stage = { package = "playhouse", … }`.
pub mod renamed {
    use playhouse as stage;
    use stage::tool;

    /// Turns a text around.
    #[tool(crate = "stage", idempotent)]
    pub async fn reverse(text: String) -> String {
        text.chars().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use playhouse::tools::Vetted;

    /// What a future gives that does not wait.
    fn at_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn a_program_that_depends_on_playhouse_alone_has_typed_tools() {
        let set = ToolSet::new(vec![Arc::new(add), Arc::new(distance), Arc::new(renamed::reverse)]).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["add", "walk", "reverse"]);
        let (from, to) = (json!({"x": 0, "y": 0}), json!({"x": 3, "y": -4}));
        let vetted = set.vet("walk", &json!({"from": from, "to": to}));
        let ask = Some("go for a walk".to_owned());
        let (level, subject, timeout) = (Level::Execute, Subject::Nothing, Duration::from_secs(5));
        assert_eq!(vetted, Vetted::Ready { effect: EffectClass::Once, ask, level, subject, timeout });
        assert_eq!(at_once(add::call(2, Some(3))), 5);
        assert_eq!(at_once(renamed::reverse::call("abc".to_owned())), "cba");
    }
}
