//! The behaviour of contracts, through the public API.

mod comparing;
mod discovering;
mod formats;
mod hostile;
mod loading;
mod ties;

use std::sync::Arc;

use tautwire_contracts::{Catalogue, Contract, Files, LoadLimits};

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn load(list: &[(&str, &str)]) -> Result<Catalogue, Vec<String>> {
    Catalogue::load(&files(list), &LoadLimits::default())
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// All errors of the files.
fn errors(list: &[(&str, &str)]) -> String {
    load(list).map(|_| String::new()).unwrap_or_else(|errors| errors.join("\n"))
}

/// The contract `c` of a manifest with these keys and one schema.
fn contract(keys: &str, schema: (&str, &str)) -> Arc<Contract> {
    let manifest = format!("[[contract]]\nname = 'c'\nschema = '{}'\n{keys}", schema.0);
    let catalogue =
        load(&[("contracts.toml", &manifest), schema]).unwrap_or_else(|errors| panic!("{}", errors.join("\n")));
    catalogue.named("c").expect("it was loaded").clone()
}
