//! Answers of a form.

use std::time::Duration;

use playhouse::agent::StructuredError;
use playhouse::prelude::*;
use playhouse::schemars::JsonSchema;
use serde::Deserialize;

use crate::service::{Answer, Service, model, says};

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[schemars(crate = "playhouse::schemars")]
struct City {
    name: String,
    people: u32,
}

const ROME: &str = r#"{"name":"Rome","people":3}"#;

async fn ask<T: serde::de::DeserializeOwned + JsonSchema>(
    answers: &'static [&'static str],
) -> (Result<T, StructuredError>, Vec<Value>) {
    let service = Service::new(|number, _| Answer::ok(says(answers[number])));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let answer = agent.prompt_as::<T>("which city?").await;
    house.shutdown(Duration::ZERO).await;
    (answer, service.seen().into_iter().map(|request| request.body).collect())
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_form_is_a_value() {
    let (city, requests) = ask::<City>(&[ROME]).await;
    assert_eq!(city.unwrap(), City { name: "Rome".into(), people: 3 });
    let format = &requests[0]["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["name"]), (&json!("json_schema"), &json!("City")));
    assert_eq!(format["json_schema"]["schema"]["required"], json!(["name", "people"]));
    assert_eq!(requests.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_asked_for_once_more_with_the_reason() {
    let (city, requests) = ask::<City>(&[r#"{"name":"Rome"}"#, ROME]).await;
    assert_eq!(city.unwrap(), City { name: "Rome".into(), people: 3 });
    let repair = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(repair.contains("people") && requests[1]["response_format"].is_object(), "{repair}");

    let (city, requests) = ask::<City>(&["Rome.", r#"{"name":1,"people":3}"#, ROME]).await;
    let told = city.as_ref().unwrap_err().to_string();
    let expected = r#"after one repair: name: 1 is not of type "string"; the answer was: {"name":1,"people":3}"#;
    assert_eq!(told, format!("the answer does not have the form that was asked for, {expected}"));
    let Err(StructuredError::Misfit { answer, .. }) = city else { panic!("{city:?}") };
    assert_eq!((answer.as_str(), requests.len()), (r#"{"name":1,"people":3}"#, 2), "one repair and no more");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_wrapped_for_the_service_and_unwrapped_for_the_caller() {
    let (cities, requests) = ask::<Vec<City>>(&[r#"{"value":[{"name":"Rome","people":3}]}"#]).await;
    assert_eq!(cities.unwrap(), [City { name: "Rome".into(), people: 3 }]);
    assert_eq!(requests[0]["response_format"]["json_schema"]["schema"]["type"], "object");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_is_no_answer() {
    let service = Service::new(|_, _| Answer::failed(400, "bad request"));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let answer = agent.prompt_as::<City>("which city?").await;
    let Err(StructuredError::NoAnswer(report)) = &answer else { panic!("{answer:?}") };
    assert!(matches!(report.outcome, Outcome::Error { .. }), "{report:?}");
    house.shutdown(Duration::ZERO).await;
}
