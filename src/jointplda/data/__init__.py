"""Labels and embeddings as they come from users, checked and made uniform."""
