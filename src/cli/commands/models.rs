//! `playhouse models`: the providers, what each needs, and what is known of their models. Needs no house and no folder.

use playhouse::config::known_provider;
use playhouse::protocol::{ApiProtocol, Prices};
use playhouse::provider::catalogue::{AS_OF, CATALOGUE, Known, find};
use playhouse::provider::{Access, PRESETS, Preset};
use serde_json::{Value, json};

use crate::cli::args::ModelsArgs;
use crate::cli::exit::Exit;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::view::write_out;

/// Lists providers, or the models of one.
pub fn models(args: &ModelsArgs) -> Result<(), Exit> {
    let text = match (&args.provider, args.json) {
        (None, false) => providers(is_set),
        (None, true) => providers_json(is_set),
        (Some(name), json) => {
            let preset = known_provider(name).map_err(Exit::Refused)?;
            let known: Vec<&Known> =
                CATALOGUE.iter().filter(|known| find(preset.name, known.id) == Some(known)).collect();
            if json { known_json(preset, &known) } else { known_models(preset, &known) }
        }
    };
    write_out(&text).map_err(|error| unwritten(&error))
}

/// Whether a variable has a value. The value itself is nobody's business.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn providers(is_set: impl Fn(&str) -> bool) -> String {
    let mut rows = vec![["PROVIDER", "WHAT IT IS", "PROTOCOL", "KEY", "", "EXAMPLE"].map(str::to_owned)];
    for preset in PRESETS {
        let keys = match key_variables(preset) {
            [] => "–".to_owned(),
            names => names.join(" or "),
        };
        rows.push([
            preset.name.to_owned(),
            preset.title.to_owned(),
            protocol(preset.api).to_owned(),
            keys,
            access(preset, &is_set),
            example(preset),
        ]);
    }
    let priced = CATALOGUE.iter().filter(|known| known.prices.is_some()).count();
    format!(
        "{}\nscripted/FILE plays a script file and needs nothing.\n\
         The prices of {priced} models are known, as of {AS_OF}: `playhouse models PROVIDER` lists them. Any other model \
         can be asked too; [models] in your config.toml says what it costs.\n",
        table(&rows)
    )
}

fn providers_json(is_set: impl Fn(&str) -> bool) -> String {
    let providers: Vec<Value> = PRESETS
        .iter()
        .map(|preset| {
            json!({
                "name": preset.name,
                "title": preset.title,
                "protocol": preset.api,
                "base_url": preset.base_url,
                "key_variables": key_variables(preset),
                "key": access(preset, &is_set),
                "example": example(preset),
            })
        })
        .collect();
    let priced = CATALOGUE.iter().filter(|known| known.prices.is_some()).count();
    format!("{}\n", json!({"providers": providers, "priced_models": priced, "as_of": AS_OF}))
}

fn known_models(preset: &Preset, known: &[&Known]) -> String {
    let (name, title, example) = (preset.name, preset.title, example(preset));
    if known.is_empty() {
        return format!(
            "Nothing is known of the models of {title}. Any can be asked by its id, as in --model {example}; \
             [models.\"{name}/ID\"] in your config.toml says what one costs.\n"
        );
    }
    let head = ["MODEL", "WINDOW", "OUTPUT", "$ IN", "$ OUT", "$ CACHE READ", "$ CACHE WRITE", ""];
    let mut rows = vec![head.map(str::to_owned)];
    for known in known {
        let price = |of: fn(&Prices) -> u64| {
            known.prices.as_ref().map_or_else(|| "unknown".to_owned(), |prices| dollars(of(prices)).to_string())
        };
        rows.push([
            format!("{name}/{}", known.id),
            known.context_window.to_string(),
            known.max_output.to_string(),
            price(|prices| prices.input),
            price(|prices| prices.output),
            price(|prices| prices.cache_read),
            price(|prices| prices.cache_write),
            known
                .prices
                .and_then(|prices| prices.up_to)
                .map_or_else(String::new, |most| format!("for prompts of up to {most} tokens")),
        ]);
    }
    format!(
        "{}\nDollars for a million tokens, as of {AS_OF}. [models.\"{name}/ID\"] in your config.toml wins.\n",
        table(&rows)
    )
}

fn known_json(preset: &Preset, known: &[&Known]) -> String {
    let models: Vec<Value> = known
        .iter()
        .map(|known| {
            let prices = known.prices.map(|prices| {
                json!({
                    "input": dollars(prices.input),
                    "output": dollars(prices.output),
                    "cache_read": dollars(prices.cache_read),
                    "cache_write": dollars(prices.cache_write),
                    "up_to": prices.up_to,
                })
            });
            json!({
                "model": format!("{}/{}", preset.name, known.id),
                "context_window": known.context_window,
                "max_output": known.max_output,
                "prices": prices,
            })
        })
        .collect();
    format!("{}\n", json!({"provider": preset.name, "models": models, "as_of": AS_OF}))
}

fn example(preset: &Preset) -> String {
    format!("{}/{}", preset.name, preset.example)
}

/// From millionths of a dollar.
fn dollars(price: u64) -> f64 {
    price as f64 / 1e6
}

fn key_variables(preset: &Preset) -> &'static [&'static str] {
    match preset.access {
        Access::Key(names) | Access::MaybeKey(names) | Access::KeyOrLogin(names, _) => names,
    }
}

/// Whether the provider has what it needs.
fn access(preset: &Preset, is_set: impl Fn(&str) -> bool) -> String {
    match (key_variables(preset).iter().any(|name| is_set(name)), preset.access) {
        (true, _) => "set".to_owned(),
        (false, Access::Key(_)) => "not set".to_owned(),
        (false, Access::MaybeKey(_)) => "not needed".to_owned(),
        (false, Access::KeyOrLogin(_, login)) => format!("signed in by {login}, if there are any"),
    }
}

fn protocol(api: ApiProtocol) -> &'static str {
    match api {
        ApiProtocol::AnthropicMessages => "Anthropic Messages",
        ApiProtocol::OpenaiCompletions => "chat completions",
        ApiProtocol::OpenaiResponses => "OpenAI Responses",
        ApiProtocol::AzureOpenai => "OpenAI Responses",
        ApiProtocol::GoogleGenerativeAi => "Gemini",
        ApiProtocol::GoogleVertex => "Gemini on Vertex",
        ApiProtocol::BedrockConverse => "Bedrock Converse",
        ApiProtocol::Scripted => "script",
        ApiProtocol::Custom => "custom",
    }
}

/// Columns as wide as their widest.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    let wide = |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|n| wide(n).unwrap_or_default()).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::provider::preset;

    #[test]
    fn each_kind_of_access_is_told() {
        let told = |name: &str, set: &str| access(preset(name).unwrap(), |variable| variable == set);
        assert_eq!(told("anthropic", ""), "not set");
        assert_eq!(told("anthropic", "ANTHROPIC_AUTH_TOKEN"), "set");
        assert_eq!(told("ollama", ""), "not needed");
        assert_eq!(told("ollama", "OLLAMA_API_KEY"), "set");
        assert_eq!(told("vertex", ""), "signed in by application default credentials, if there are any");
        assert_eq!(told("bedrock", "AWS_BEARER_TOKEN_BEDROCK"), "set");
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let rows = [["a", "bé", ""], ["ccc", "d", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a    bé\nccc  d   e\n");
    }
}
