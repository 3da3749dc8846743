// Where `mqtt-packet` names properties otherwise than this package, and gives them other types.

/** This package's name and theirs. */
export const RENAMED: Readonly<Record<string, string>> = {
  subscriptionIdentifiers: "subscriptionIdentifier",
  subscriptionIdentifierAvailable: "subscriptionIdentifiersAvailable",
};

/** Their name and this package's, everywhere but in PUBLISH. */
export const RENAMED_BACK: Readonly<Record<string, string>> = {
  subscriptionIdentifiersAvailable: "subscriptionIdentifierAvailable",
};

/** A number here, true or false there. */
export const INDICATOR = "payloadFormatIndicator";
