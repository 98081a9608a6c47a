//! Reads answers of services, one JSON object per line: `api`, the protocol, and `body` in base64. Prints what is
//! understood of each, in the same order. `cargo xtask outside providers` makes the answers from the types of the
//! vendors' own libraries.

use std::error::Error;
use std::io::{BufRead, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use playhouse_protocol::{ApiProtocol, Content, ProviderError};
use playhouse_provider::{Finish, Limits, Response, decoder_for};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Answer {
    api: ApiProtocol,
    body: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Answer { api, body } = serde_json::from_str(&line?)?;
        let understood = match read(api, &STANDARD.decode(body)?) {
            Ok(Response { content, stop_reason, usage, .. }) => {
                let says = |block: &Content| match block {
                    Content::Text { text } => text.clone(),
                    Content::Thinking { .. } | Content::ToolCall { .. } | Content::Image { .. } => String::new(),
                };
                json!({"text": content.iter().map(says).collect::<String>(), "stop": stop_reason, "usage": usage})
            }
            Err(error) => json!({"error": error.to_string()}),
        };
        writeln!(out, "{understood}")?;
    }
    Ok(())
}

fn read(api: ApiProtocol, body: &[u8]) -> Result<Response, ProviderError> {
    let other = || ProviderError::Other { message: "the protocol has no decoder".to_owned() };
    let mut decoder = decoder_for(api, Limits::default()).ok_or_else(other)?;
    decoder.feed(body, &mut drop)?;
    decoder.finish(&Finish { response: 0, taken: &|_| false })
}
