//! Azure OpenAI: Responses at a resource of one's own. The model's id is the name of its deployment.
//!
//! The base URL ends in `/openai/v1`; one that names only the resource (`https://NAME.openai.azure.com`) gets that
//! added. One with `/openai/deployments/` in it is a deployment's own address, where there are only chat completions: it
//! is refused with the right one.

use playhouse_protocol::ModelConfig;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName};

use super::Responses;
use crate::wire::service::Service;
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_header, service};

const KEY_HEADER: HeaderName = HeaderName::from_static("api-key");
/// The variable of a key.
const KEY: &str = "AZURE_OPENAI_API_KEY";
/// The variable of a token of Microsoft Entra, which goes into another header.
const TOKEN: &str = "AZURE_OPENAI_AD_TOKEN";

/// What a resource's address goes on with.
const V1: &str = "/openai/v1";
/// What the address of a deployment holds.
const DEPLOYMENTS: &str = "/openai/deployments/";

/// A service of Azure.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    let base = base(model)?;
    let protocol = Responses { url: url(model, &base)?, provider: model.provider.clone() };
    // Every address here is the user's own: without this it would pass for one that may ask for no key.
    let variable = model.key_variable.clone().unwrap_or_else(|| KEY.to_owned());
    let header = if variable == TOKEN { (AUTHORIZATION, "Bearer ") } else { (KEY_HEADER, "") };
    let keyed = ModelConfig { key_variable: Some(variable), ..model.clone() };
    let credentials = key_header(&keyed, &base, KEY, header)?;
    service(model, wiring, &base, protocol, credentials)
}

fn base(model: &ModelConfig) -> Result<Url, SetupError> {
    if model.base_url.is_none() {
        return Err(SetupError::Missing {
            provider: model.provider.to_string(),
            what: "the resource's address: set AZURE_OPENAI_BASE_URL (https://NAME.openai.azure.com/openai/v1) \
                   or AZURE_OPENAI_ENDPOINT, or --base-url"
                .to_owned(),
        });
    }
    let base = base_url(model, "")?;
    if let Some((start, rest)) = base.as_str().split_once(DEPLOYMENTS) {
        let deployment = rest.split('/').next().unwrap_or_default();
        return Err(SetupError::BadBaseUrl {
            reason: format!(
                "a deployment's own address has no Responses: use {start}{V1} and the model azure/{deployment}"
            ),
        });
    }
    match base.path().trim_end_matches('/') {
        "" | "/openai" => endpoint(&base, V1),
        _ => Ok(base),
    }
}

fn url(model: &ModelConfig, base: &Url) -> Result<Url, SetupError> {
    let mut url = endpoint(base, "/responses")?;
    let version = model.api_version.as_deref().map(str::trim).filter(|version| !version.is_empty());
    if let Some(version) = version {
        url.query_pairs_mut().append_pair("api-version", version);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use playhouse_protocol::{ApiProtocol, Secret};

    use super::*;

    fn model(base_url: &str) -> ModelConfig {
        ModelConfig {
            base_url: Some(base_url.to_owned()),
            api_key: Some(Secret::new("k")),
            ..ModelConfig::new("azure", ApiProtocol::AzureOpenai, "my-deployment")
        }
    }

    fn address(model: &ModelConfig) -> String {
        url(model, &base(model).unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_base_url_leads_to_the_right_address() {
        for (base_url, expected) in [
            ("https://n.openai.azure.com/openai/v1", "https://n.openai.azure.com/openai/v1/responses"),
            ("https://n.openai.azure.com/openai/v1/", "https://n.openai.azure.com/openai/v1/responses"),
            ("https://n.openai.azure.com", "https://n.openai.azure.com/openai/v1/responses"),
            ("https://n.openai.azure.com/", "https://n.openai.azure.com/openai/v1/responses"),
            ("https://proxy.example/azure", "https://proxy.example/azure/responses"),
        ] {
            assert_eq!(address(&model(base_url)), expected);
        }
    }

    #[test]
    fn an_api_version_that_is_set_is_sent() {
        let set =
            |base_url: &str, version: &str| ModelConfig { api_version: Some(version.to_owned()), ..model(base_url) };
        assert_eq!(
            address(&set("https://n.openai.azure.com/openai/v1", "preview")),
            "https://n.openai.azure.com/openai/v1/responses?api-version=preview"
        );
        assert_eq!(
            address(&set("https://n.openai.azure.com/openai/v1", "2026-01-01&x=#y")),
            "https://n.openai.azure.com/openai/v1/responses?api-version=2026-01-01%26x%3D%23y"
        );
        assert_eq!(address(&set("https://n.openai.azure.com", " ")), "https://n.openai.azure.com/openai/v1/responses");
    }

    #[test]
    fn a_deployment_s_own_address_is_refused_with_the_right_one() {
        for base_url in [
            "https://n.openai.azure.com/openai/deployments/d",
            "https://n.openai.azure.com/openai/deployments/d/chat/completions",
        ] {
            let refused = connect(&model(base_url), &Wiring::default()).unwrap_err().to_string();
            assert!(refused.ends_with("use https://n.openai.azure.com/openai/v1 and the model azure/d"), "{refused}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = ModelConfig { base_url: None, ..model("") };
        assert_eq!(
            connect(&nowhere, &Wiring::default()).unwrap_err().to_string(),
            "`azure` needs the resource's address: set AZURE_OPENAI_BASE_URL \
             (https://NAME.openai.azure.com/openai/v1) or AZURE_OPENAI_ENDPOINT, or --base-url"
        );
        let keyless = ModelConfig { api_key: None, ..model("https://n.openai.azure.com") };
        let refused = connect(&keyless, &Wiring::default()).unwrap_err();
        assert_eq!(refused.to_string(), "no key for `azure`: set the environment variable AZURE_OPENAI_API_KEY");
        let tokenless = ModelConfig { key_variable: Some(TOKEN.to_owned()), ..keyless };
        let refused = connect(&tokenless, &Wiring::default()).unwrap_err();
        assert_eq!(refused.to_string(), "no key for `azure`: set the environment variable AZURE_OPENAI_AD_TOKEN");
        assert!(matches!(connect(&model("n.openai"), &Wiring::default()), Err(SetupError::BadBaseUrl { .. })));
    }
}
