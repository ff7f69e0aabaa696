import unittest

from price import price


class PriceTest(unittest.TestCase):
    def test_two_items(self):
        self.assertEqual(price(2), 80)
