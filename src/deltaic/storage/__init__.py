"""Object stores, put-if-absent, announcements: everything that deltaic keeps goes through here."""
