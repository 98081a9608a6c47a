//! Typed tools: `#[tool]`, and what its expansion calls at run time.

/// Makes a tool of an `async fn`: the name is the function's, the description its doc comment, and the schema and the
/// decoding of arguments come from its parameters.
///
/// ```
/// use playhouse::prelude::*;
///
/// /// Adds two numbers.
/// #[tool(read_only)]
/// async fn add(
///     /// The first one.
///     a: i64,
///     /// The second one; 1 if not given.
///     b: Option<i64>,
/// ) -> i64 {
///     a + b.unwrap_or(1)
/// }
///
/// let set = ToolSet::new(vec![std::sync::Arc::new(add)])?;
/// assert_eq!(
///     set.definitions()[0].parameters,
///     json!({
///         "type": "object",
///         "properties": {
///             "a": {"type": "integer", "description": "The first one."},
///             "b": {"type": ["integer", "null"], "description": "The second one; 1 if not given."},
///         },
///         "required": ["a"],
///         "additionalProperties": false,
///     })
/// );
/// # Ok::<(), playhouse::tools::ToolSetError>(())
/// ```
///
/// `add` is now a value for [`AgentBuilder::tool`](crate::AgentBuilder::tool); the function itself is `add::call`.
/// Where `add` is in scope no variable can have its name.
///
/// - **Parameters** are of any type that has `Deserialize` and `JsonSchema`; derive them for your own with
///   `#[serde(crate = "playhouse::serde")]` and `#[schemars(crate = "playhouse::schemars")]`. `Option<T>` may be left out,
///   as may what has `#[serde(default)]`; `#[schemars(range(min = 1))]` and the like narrow the schema. Calls that don't
///   fit never reach the function.
/// - **The context**: a parameter of type `ToolContext` or `&ToolContext` is no argument of the call.
/// - **A state**: a parameter of type `State<T>` is no argument either, but a value of the program's own, such as a pool of
///   connections: `State(pool): State<Pool>`. It is what [`HouseBuilder::state`](crate::HouseBuilder::state) or
///   [`AgentBuilder::state`](crate::AgentBuilder::state) was called with; without it the agent does not start.
/// - **The answer**: text is given to the model as it is, a [`ToolResult`](crate::protocol::ToolResult) too, `()` as
///   `done`, and whatever else has `Serialize` as JSON.
/// - **Errors**: in a `Result`, a [`ToolError`](crate::protocol::ToolError) is passed on; of any other error the model
///   reads the text.
/// - **Options**: `#[tool(name = "…")]`; `read_only` or `idempotent`, so that it is run again after a crash (see
///   [`EffectClass`](crate::protocol::EffectClass)); `timeout_secs = 5`; `ask = "send a letter"`, what a person is asked
///   to allow first; `crate = "…"`, where `playhouse` is found if it has another name.
///
/// **Methods** are tools that hold something, when the program makes it together with them. `#[tool]` stands above the
/// whole `impl` block, and above each `async fn` with `&self` that is to be one; the type then has `tools()`, whose tools
/// share the value:
///
/// ```
/// use playhouse::prelude::*;
///
/// struct Clerk {
///     customers: Vec<String>, // a pool, in earnest
/// }
///
/// #[tool]
/// impl Clerk {
///     /// Finds a customer by the beginning of a name.
///     #[tool(read_only)]
///     async fn find(&self, name: String) -> Option<String> {
///         self.customers.iter().find(|customer| customer.starts_with(&name)).cloned()
///     }
/// }
///
/// fn with_clerk(agent: AgentBuilder, customers: Vec<String>) -> AgentBuilder {
///     agent.tools(Clerk { customers }.tools())
/// }
/// ```
///
/// Both may take a `State<T>`:
///
/// ```
/// use playhouse::prelude::*;
///
/// struct Customers(Vec<String>); // a pool, in earnest
///
/// /// Says how many customers there are.
/// #[tool(read_only)]
/// async fn how_many(customers: State<Customers>) -> usize {
///     customers.0.0.len()
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// assert_eq!(how_many::call(State::new(Customers(vec!["Ann".to_owned()]))).await, 1);
/// # });
/// ```
///
/// What cannot be a tool does not compile:
///
/// ```compile_fail
/// # use playhouse::prelude::*;
/// /// Adds two numbers.
/// #[tool]
/// fn add(a: i64, b: i64) -> i64 { // error: a tool is an `async fn`
///     a + b
/// }
/// ```
pub use playhouse_macros::tool;

/// What expansions of [`tool`] name. No interface: it changes without notice.
pub mod private {
    use std::any::Any;
    use std::fmt::Display;

    pub use async_trait::async_trait;
    pub use playhouse_protocol::{EffectClass, State, StateType, ToolContext, ToolError, ToolResult};
    pub use playhouse_tools::Tool;
    use schemars::generate::SchemaSettings;
    use schemars::transform::RecursiveTransform;
    use schemars::{JsonSchema, Schema};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    pub use serde_json::Value;
    use uuid::Uuid;
    pub use {schemars, serde};

    /// What an answer of no words is told as.
    const DONE: &str = "done";

    /// The formats that services know; others, of numbers for instance, some refuse.
    const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

    /// The schema of a tool's arguments: one object that refers to nothing outside itself.
    pub fn schema<T: JsonSchema>() -> Value {
        let mut settings = SchemaSettings::draft2020_12();
        // Some services follow no references; only a type that contains itself keeps one.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let settings = settings.with_transform(RecursiveTransform(|schema: &mut Schema| {
            let format = schema.get("format").and_then(Value::as_str);
            if format.is_some_and(|format| !FORMATS.contains(&format)) {
                schema.remove("format");
            }
        }));
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.remove("title");
        // Some services refuse an object without it.
        schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Default::default()));
        schema.to_value()
    }

    /// A call's arguments as the function takes them. They fit the schema, which does not say everything a type demands.
    pub fn decode<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
        serde_json::from_value(arguments).map_err(|error| ToolError::InvalidArgs(error.to_string()))
    }

    /// The effect class of a tool for which the same arguments mean the same deed.
    pub fn idempotent(name: &str, arguments: &Value) -> EffectClass {
        let key = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{name} {arguments}").as_bytes());
        EffectClass::Idempotent { key: key.simple().to_string() }
    }

    /// A function that gives a `Result`. Found before [`NeverFails`], whose methods need one more reference.
    pub trait MayFail {
        /// How its answer is read.
        fn playhouse_kind(&self) -> Fallible {
            Fallible
        }
    }

    impl<T, E> MayFail for Result<T, E> {}

    /// A function that gives anything else.
    pub trait NeverFails {
        /// How its answer is read.
        fn playhouse_kind(&self) -> Infallible {
            Infallible
        }
    }

    impl<T> NeverFails for &T {}

    /// For functions that return a `Result`.
    #[derive(Debug)]
    pub struct Fallible;

    /// For functions that return anything else.
    #[derive(Debug)]
    pub struct Infallible;

    impl Fallible {
        /// The tool's result, or its error.
        pub fn result<T, E>(self, answer: Result<T, E>) -> Result<ToolResult, ToolError>
        where
            T: Serialize + 'static,
            E: Display + 'static,
        {
            match answer {
                Ok(answer) => told(answer),
                Err(error) => Err(match (&error as &dyn Any).downcast_ref::<ToolError>() {
                    Some(error) => error.clone(),
                    // `#`: errors that know their cause tell it.
                    None => ToolError::Failed(format!("{error:#}")),
                }),
            }
        }
    }

    impl Infallible {
        /// What the function returned, as a result.
        pub fn result<T: Serialize + 'static>(self, answer: T) -> Result<ToolResult, ToolError> {
            told(answer)
        }
    }

    /// An answer for the model: a result as it is, text as text, all else as JSON.
    fn told<T: Serialize + 'static>(answer: T) -> Result<ToolResult, ToolError> {
        let mut answer = Some(answer);
        let whole = (&mut answer as &mut dyn Any).downcast_mut::<Option<ToolResult>>();
        if let Some(result) = whole.and_then(Option::take) {
            return Ok(result);
        }
        if (&answer as &dyn Any).is::<Option<()>>() {
            return Ok(ToolResult::text(DONE));
        }
        let unreadable = |error| ToolError::Failed(format!("the tool's answer is no JSON: {error}"));
        let json = serde_json::to_string(&answer).map_err(unreadable)?;
        match json.starts_with('"') {
            true => serde_json::from_str::<String>(&json).map(ToolResult::text).map_err(unreadable),
            false => Ok(ToolResult::text(json)),
        }
    }
}
