//! Whatever comes over a connection is refused or understood; what is understood, said again, is understood as the
//! same, on one line. Bytes pass as they are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runcast::model::json::line;
use runcast::remote::wire::{Ask, Bytes, Tell};
use runcast::runs::protocol::{Answer, Request};
use serde::{Serialize, de::DeserializeOwned};

fn check<T: Serialize + DeserializeOwned>(said: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(said) else { return };
    let again = line(&message);
    assert_eq!(again.iter().position(|&byte| byte == b'\n'), Some(again.len() - 1));
    let understood = serde_json::from_slice::<T>(&again).expect("it was said just now");
    assert_eq!(line(&understood), again);
}

fuzz_target!(|said: &[u8]| {
    for said in said.split(|&byte| byte == b'\n') {
        check::<Ask>(said);
        check::<Tell>(said);
        check::<Request>(said);
        check::<Answer>(said);
    }
    let text = serde_json::to_string(&Bytes(said.to_vec())).expect("it is a text");
    let bytes: Bytes = serde_json::from_str(&text).expect("it was written just now");
    assert_eq!(bytes.0, said);
});
