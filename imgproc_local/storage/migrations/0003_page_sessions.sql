-- Access to the local page: links that open it once, and the browsers that are signed in. Of their secrets only hashes
-- are stored. key_id is the API key that the page made for itself; it ends with the session.

CREATE TABLE sign_in_links (
    hash        BLOB PRIMARY KEY,
    expires_at  TEXT NOT NULL
) STRICT;

CREATE TABLE page_sessions (
    id          TEXT PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,
    browser     TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL,
    key_id      TEXT REFERENCES keys (id)
) STRICT;
