//! Reading the sections that have names of their own.

use playhouse_protocol::TakenImages;
use playhouse_tools::is_secret;
use toml_edit::{Item, TableLike};

use crate::config::keys::shown::name_in_toml;
use crate::config::keys::value::{Bad, Given};
use crate::config::problem::Problem;
use crate::config::sections::model_name::{ModelName, known_provider};
use crate::config::sections::named::SUMMARIES;
use crate::config::sources::file::FileLayer;
use crate::config::{Origin, Position, Setting};
use crate::nearest::nearest;

/// The keys of a model's section.
const MODEL_KEYS: [&str; 8] =
    ["context_window", "max_tokens", "reasoning_summary", "images", "input", "output", "cache_read", "cache_write"];
/// Those of them that are prices.
const PRICES: &[&str] = &["input", "output", "cache_read", "cache_write"];
/// The keys of a provider's section.
const PROVIDER_KEYS: [&str; 1] = ["headers"];
/// A larger window than this is a slip.
const MOST_WINDOW: u64 = 1_000_000_000;
/// A higher price than this is a slip.
const MOST_DOLLARS: f64 = 10_000.0;

const WINDOW: &str = "a whole number from 1 to 1000000000";
const TOKENS: &str = "a whole number from 1 to 4294967295";
const SUMMARY: &str = "`auto`, `concise`, `detailed` or `none`";
const IMAGES: &str = "`any`, `none` or a list of formats such as [\"image/png\", \"image/jpeg\"]";
const PRICE: &str = "dollars for a million tokens, a number from 0 to 10000";
const HEADER: &str = "a string of plain characters";

/// A section whose keys are names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedSection {
    Models,
    Providers,
}

impl NamedSection {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Models, Self::Providers].into_iter().find(|section| section.name() == name)
    }

    /// As it stands in a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Providers => "providers",
        }
    }
}

impl FileLayer<'_> {
    /// Reads one of these sections of the user's file.
    pub(crate) fn named_section(&mut self, section: NamedSection, table: &dyn TableLike) {
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let at = self.source.at(key.span());
            let full = format!("{}.{}", section.name(), name_in_toml(&cut(name)));
            let named = match section {
                NamedSection::Models => ModelName::parse(name).and_then(|model| match model {
                    ModelName::Served { .. } => Ok(()),
                    ModelName::Scripted(_) => Err("a script has no limits and no price: leave it out".to_owned()),
                }),
                NamedSection::Providers => known_provider(name).map(|_| ()),
            };
            match (named, item.as_table_like()) {
                (Err(reason), _) => self.problems.push(Problem::InSection { at, name: full, reason }),
                (Ok(()), None) => self.problems.push(Problem::NotASection { at, section: full }),
                (Ok(()), Some(inner)) => match section {
                    NamedSection::Models => self.model(name, &full, inner, at),
                    NamedSection::Providers => self.provider(name, &full, inner),
                },
            }
        }
    }

    fn model(&mut self, model: &str, section: &str, table: &dyn TableLike, at: Position) {
        let mut facts = self.config.named.models.remove(model).unwrap_or_default();
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let full = format!("{section}.{name}");
            match name {
                "context_window" => {
                    facts.context_window = self.read(&full, item, WINDOW, |given| given.whole(1, MOST_WINDOW));
                }
                "max_tokens" => {
                    facts.max_tokens = self.read(&full, item, TOKENS, |given| {
                        u32::try_from(given.whole(1, u32::MAX.into())?).map_err(|_| Bad::NotThis)
                    });
                }
                "reasoning_summary" => {
                    facts.reasoning_summary = self.read(&full, item, SUMMARY, |given| given.one_of(&SUMMARIES));
                }
                "images" => facts.images = self.read(&full, item, IMAGES, images),
                "input" => facts.input = self.price(&full, item),
                "output" => facts.output = self.price(&full, item),
                "cache_read" => facts.cache_read = self.price(&full, item),
                "cache_write" => facts.cache_write = self.price(&full, item),
                _ => self.unknown(section, name, &MODEL_KEYS, self.source.at(key.span())),
            }
        }
        let has = |name: &&str| table.contains_key(name);
        if PRICES.iter().any(has) && !["input", "output"].iter().all(has) {
            let reason = "prices need both `input` and `output`: add what is missing".to_owned();
            self.problems.push(Problem::InSection { at, name: section.to_owned(), reason });
        }
        self.config.named.models.insert(model.to_owned(), facts);
    }

    fn price(&mut self, full: &str, item: &Item) -> Option<Setting<f64>> {
        self.read(full, item, PRICE, |given| given.number(0.0, MOST_DOLLARS))
    }

    fn provider(&mut self, provider: &str, section: &str, table: &dyn TableLike) {
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let at = self.source.at(key.span());
            match (name, item.as_table_like()) {
                ("headers", Some(headers)) => self.headers(provider, &format!("{section}.headers"), headers),
                ("headers", None) => {
                    let reason = "it takes headers by name, as in { \"anthropic-beta\" = \"…\" }".to_owned();
                    self.problems.push(Problem::InSection { at, name: format!("{section}.headers"), reason });
                }
                (_, _) => self.unknown(section, name, &PROVIDER_KEYS, at),
            }
        }
    }

    fn headers(&mut self, provider: &str, section: &str, table: &dyn TableLike) {
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let at = self.source.at(key.span());
            let full = format!("{section}.{}", name_in_toml(&cut(name)));
            if holds_key(name) {
                self.problems.push(Problem::SecretKey { at, name: full });
                continue;
            }
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
                let reason = "that is no name of a header".to_owned();
                self.problems.push(Problem::InSection { at, name: full, reason });
                continue;
            }
            let plain = |given: Given| {
                let text = given.text()?;
                let is_plain = text.chars().all(|c| matches!(c, ' '..='~' | '\t'));
                if is_plain { Ok(text) } else { Err(Bad::NotThis) }
            };
            if let Some(value) = self.read(&full, item, HEADER, plain) {
                let facts = self.config.named.providers.entry(provider.to_owned()).or_default();
                facts.headers.insert(name.to_owned(), value);
            }
        }
    }

    /// Reads a value, or notes why it cannot be.
    pub(crate) fn read<T>(
        &mut self,
        full: &str,
        item: &Item,
        takes: &'static str,
        read: impl FnOnce(Given) -> Result<T, Bad>,
    ) -> Option<Setting<T>> {
        let at = self.source.at(item.span());
        let given = match self.given(item) {
            Ok(given) => given,
            Err(reason) => {
                self.problems.push(Problem::Expansion { at, key: full.to_owned(), reason });
                return None;
            }
        };
        match read(given) {
            Ok(value) => Some(Setting { origin: Origin::User(at), ..Setting::default_of(value) }),
            Err(_) => {
                let (key, found) = (full.to_owned(), self.source.found(item));
                self.problems.push(Problem::BadValue { at: Origin::User(at), key, found, takes });
                None
            }
        }
    }

    pub(crate) fn unknown(&mut self, section: &str, name: &str, known: &[&'static str], at: Position) {
        let near = nearest(name, known.iter().map(|known| (*known, *known)));
        let full = format!("{section}.{}", name_in_toml(&cut(name)));
        // A slip in `max_tokens` is no secret.
        self.problems.push(if is_secret(name) && near.is_none_or(|near| near.distance > 2) {
            Problem::SecretKey { at, name: full }
        } else {
            let reason = match near {
                Some(near) => format!("there is no such key: did you mean `{}`?", near.candidate),
                None => format!("there is no such key: there is {}", known.join(", ")),
            };
            Problem::InSection { at, name: full, reason }
        });
    }
}

/// Which pictures a model takes, as a file says it.
fn images(given: Given) -> Result<TakenImages, Bad> {
    match given {
        Given::List(formats) => {
            match formats.iter().all(|format| format.starts_with("image/")) && !formats.is_empty() {
                true => Ok(TakenImages::Of(formats)),
                false => Err(Bad::NotThis),
            }
        }
        given if given.is("any") => Ok(TakenImages::Any),
        given if given.is("none") => Ok(TakenImages::None),
        Given::Text(_) | Given::Whole(_) | Given::Number(_) | Given::Other | Given::Plain(_) => Err(Bad::NotThis),
    }
}

/// Whether a header is one that holds a key: settings are written to the journal.
fn holds_key(name: &str) -> bool {
    let is_one = |known: &&str| name.eq_ignore_ascii_case(known);
    is_secret(name) || ["authorization", "proxy-authorization", "cookie"].iter().any(is_one)
}

fn cut(name: &str) -> String {
    name.chars().take(60).collect()
}
