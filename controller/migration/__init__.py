"""Would a migration to KRaft go well, and could it be rolled back? `migration --check` looks, and changes nothing."""
