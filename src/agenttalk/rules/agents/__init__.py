"""What is known of agent programs and models: their command lines, their output, their permissions."""
