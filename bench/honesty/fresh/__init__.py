"""Cases that were written from the documentation alone, without a look at the checks or at the other cases."""
