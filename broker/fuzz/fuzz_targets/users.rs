//! Password files of arbitrary text: no panic, errors have lines and never contain a possible password, and edited files can be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_identity::edit::{self, EditError};
use tautwire_identity::{Account, PasswordFile};

fuzz_target!(|text: &str| {
    let (name, text) = text.split_once('\n').unwrap_or((text, ""));
    let file = match PasswordFile::parse("users", text) {
        Ok(file) => file,
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.line.is_some_and(|line| line <= text.split('\n').count()), "{error}");
            }
            // The text after a name may be a password.
            let marked = text.replace(':', ":hunter2");
            for error in PasswordFile::parse("users", &marked).err().unwrap_or_default() {
                assert!(!error.to_string().contains("hunter2"), "{error}");
            }
            return;
        }
    };
    let count = file.users().count();
    let account: Account = file.users().next().map_or_else(known, |(_, account)| account.clone());
    match edit::add(text, name, &account) {
        Ok(longer) => {
            let longer = PasswordFile::parse("users", &longer).expect("a valid file");
            assert_eq!(longer.users().count(), count + 1);
            assert_eq!(longer.user(name), Some(&account));
        }
        Err(EditError::Exists(_)) => {
            let shorter = edit::remove(text, name).expect("a user");
            let shorter = PasswordFile::parse("users", &shorter).expect("a valid file");
            assert_eq!(shorter.users().count(), count - 1);
            let changed = edit::change(text, name, &account).expect("a user");
            let changed = PasswordFile::parse("users", &changed).expect("a valid file");
            assert_eq!((changed.users().count(), changed.user(name)), (count, Some(&account)));
        }
        Err(error) => assert!(matches!(error, EditError::Name(_)), "{error}"),
    }
    // The same file again, built from its parts.
    let mut again = String::new();
    for (name, account) in file.users() {
        again = edit::add(&again, name, account).expect("another name");
    }
    assert_eq!(PasswordFile::parse("users", &again).as_ref(), Ok(&file));
});

fn known() -> Account {
    let text = "u:$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA";
    PasswordFile::parse("users", text).expect("a valid file").user("u").expect("the user").clone()
}
