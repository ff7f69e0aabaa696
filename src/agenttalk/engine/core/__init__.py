"""What every use case needs: dependencies, access, boards, records, loops, slots."""
