"""What a forge's events demand, and how the forge shows that it was carried out."""
