//! Words that events carry: an enum and its words from one list, so that the type, what is written and what
//! the schema says cannot disagree. Must not know any particular word.

/// Makes a public enum, each of whose variants is one word of the format: `ALL`, `as_str`, `from_word`, its serde shape and
/// its JSON Schema, in which the comments are the description.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        pub enum $Name:ident {
            $($(#[doc = $meaning:literal])+ $Variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name {
            $($(#[doc = $meaning])+ $Variant,)+
        }

        impl $Name {
            /// All of them, in their order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$Variant),+];

            /// The word that events carry.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }

            /// The one that events call so.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $Name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::model::schema::words(
                    concat!($($about),+),
                    &[$(($word, concat!($($meaning),+))),+],
                )
            }
        }
    };
}

pub(crate) use words;
