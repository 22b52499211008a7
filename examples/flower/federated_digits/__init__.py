"""An ordinary Flower app. Only the strategy in server_app.py is not Flower's own."""
