"""The web pages: what the engine knows, for people, and what people can have it do.

They are made on the server and can be read without a script. The one script that is there keeps them up to date.
"""
