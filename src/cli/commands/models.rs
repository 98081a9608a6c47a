//! `playhouse models`: the providers, what each needs, and what is known of their models. Needs no house and no folder.

use playhouse::config::known_provider;
use playhouse::protocol::{ApiProtocol, Prices};
use playhouse::provider::catalogue::{AS_OF, CATALOGUE, Known, find};
use playhouse::provider::{Access, PRESETS, Preset};
use serde_json::{Value, json};

use crate::cli::args::ModelsArgs;
use crate::cli::exit::Exit;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::text::{cut, width};
use crate::cli::terminal::view::write_out;
use crate::cli::terminal::wrap::wrapped;

/// The width of what is no terminal: columns are then separated by tabs, and nothing is cut or wrapped.
const PIPED: usize = usize::MAX;

/// Lists providers, or the models of one.
pub fn models(args: &ModelsArgs) -> Result<(), Exit> {
    let text = match (&args.provider, args.json) {
        (None, false) => providers(is_set, width().unwrap_or(PIPED)),
        (None, true) => providers_json(is_set),
        (Some(name), json) => {
            let preset = known_provider(name).map_err(Exit::Refused)?;
            let known: Vec<&Known> =
                CATALOGUE.iter().filter(|known| find(preset.name, known.id) == Some(known)).collect();
            if json { known_json(preset, &known) } else { known_models(preset, &known, width().unwrap_or(PIPED)) }
        }
    };
    write_out(&text).map_err(|error| unwritten(&error))
}

/// Whether a variable has a value. The value itself is nobody's business.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// On lines of at most `width` characters: with less about each provider where that is little.
fn providers(is_set: impl Fn(&str) -> bool, width: usize) -> String {
    let mut rows = vec![["PROVIDER", "WHAT IT IS", "PROTOCOL", "KEY", "", "EXAMPLE"].map(str::to_owned)];
    for preset in PRESETS {
        let keys = match preset.key_variables() {
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
    let wide = if width == PIPED { tabbed(&rows) } else { table(&rows) };
    let priced = CATALOGUE.iter().filter(|known| known.prices.is_some()).count();
    let more = format!(
        "The prices of {priced} models are known, as of {AS_OF}: `playhouse models PROVIDER` lists them. Any other model \
         can be asked too; [models] in your config.toml says what it costs."
    );
    let script = "scripted/FILE plays a script file and needs nothing.";
    let shown = if fits(&wide, width) { wide } else { narrow_providers(is_set, width) };
    format!("{shown}\n{}{}", words(script, width), words(&more, width))
}

/// As many of provider, key, whether it is set, and the id of a model as there is room for.
fn narrow_providers(is_set: impl Fn(&str) -> bool, width: usize) -> String {
    let row = |preset: &Preset| {
        let variables = preset.key_variables();
        let variable = variables.iter().find(|name| is_set(name)).or(variables.first()).copied().unwrap_or("–");
        let access = match (variables.iter().any(|name| is_set(name)), preset.access) {
            (true, _) => "set",
            (false, Access::Key(_)) => "not set",
            (false, Access::MaybeKey(_)) => "not needed",
            (false, Access::KeyOrLogin(..)) => "or a login",
        };
        [preset.name, access, variable, preset.example].map(str::to_owned)
    };
    let head = ["PROVIDER", "KEY", "VARIABLE", "ID, FOR EXAMPLE"].map(str::to_owned);
    let rows: Vec<[String; 4]> = [head].into_iter().chain(PRESETS.iter().map(row)).collect();
    let shown = match width {
        72.. => table(&rows),
        56..72 => table(
            &rows
                .iter()
                .map(|[name, access, variable, _]| [name, access, variable].map(String::clone))
                .collect::<Vec<_>>(),
        ),
        _ => table(&rows.iter().map(|[name, access, ..]| [name, access].map(String::clone)).collect::<Vec<_>>()),
    };
    shown.lines().map(|line| cut(line, width) + "\n").collect()
}

fn fits(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

/// Words on lines of at most `width` columns.
fn words(text: &str, width: usize) -> String {
    wrapped(text, 0, Some(width)) + "\n"
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
                "key_variables": preset.key_variables(),
                "key": access(preset, &is_set),
                "example": example(preset),
            })
        })
        .collect();
    let priced = CATALOGUE.iter().filter(|known| known.prices.is_some()).count();
    format!("{}\n", json!({"providers": providers, "priced_models": priced, "as_of": AS_OF}))
}

fn known_models(preset: &Preset, known: &[&Known], width: usize) -> String {
    let (name, title, example) = (preset.name, preset.title, example(preset));
    if known.is_empty() {
        let text = format!(
            "Nothing is known of the models of {title}. Any can be asked by its id, as in --model {example}; \
             [models.\"{name}/ID\"] in your config.toml says what one costs."
        );
        return words(&text, width);
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
    let wide = if width == PIPED { tabbed(&rows) } else { table(&rows) };
    let shown = match fits(&wide, width) {
        true => wide,
        false => {
            let without_caches = rows.iter().map(|[model, window, output, price_in, price_out, ..]| {
                [model, window, output, price_in, price_out].map(String::clone)
            });
            let shown = table(&without_caches.collect::<Vec<_>>());
            if fits(&shown, width) { shown } else { rows.iter().skip(1).map(|row| narrow_model(row, width)).collect() }
        }
    };
    let text = format!("Dollars for a million tokens, as of {AS_OF}. [models.\"{name}/ID\"] in your config.toml wins.");
    format!("{shown}\n{}", words(&text, width))
}

/// A model and what it costs, on lines of its own.
fn narrow_model(row: &[String; 8], width: usize) -> String {
    let [model, window, output, price_in, price_out, cache_read, cache_write, up_to] = row;
    let (window, output) = (format!("window {window}"), format!("output {output}"));
    let prices = format!("$ {price_in} in, {price_out} out; caches: {cache_read} read, {cache_write} write");
    let up_to = if up_to.is_empty() { String::new() } else { format!(", {up_to}") };
    wrapped(&format!("{model}\n  {window}, {output}\n  {prices}{up_to}\n"), 4, Some(width))
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

/// Whether the provider has what it needs.
fn access(preset: &Preset, is_set: impl Fn(&str) -> bool) -> String {
    match (preset.key_variables().iter().any(|name| is_set(name)), preset.access) {
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

/// Columns for programs such as `cut` and `awk`.
fn tabbed<const N: usize>(rows: &[[String; N]]) -> String {
    rows.iter().map(|row| row.join("\t") + "\n").collect()
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
    fn lists_fit_the_terminal() {
        for columns in [40, 56, 60, 72, 80, 100, 120, 400] {
            let listed = providers(|_| false, columns);
            assert!(fits(&listed, columns), "{columns}: {listed}");
            assert!(PRESETS.iter().all(|preset| listed.contains(preset.name)), "{columns}: {listed}");
        }
        let known: Vec<&Known> = CATALOGUE.iter().filter(|known| known.provider == "anthropic").collect();
        for columns in [40, 80, 120] {
            let listed = known_models(preset("anthropic").unwrap(), &known, columns);
            assert!(fits(&listed, columns), "{columns}: {listed}");
        }
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let rows = [["a", "bé", ""], ["ccc", "d", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a    bé\nccc  d   e\n");
    }
}
