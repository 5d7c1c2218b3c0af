;;; agent-q-web-test.el --- Fetching pages  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A model fetches pages from a server on this machine: what the request shows,
;; which rules are offered, and what the chat and the model get.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-files)

(defvar agent-q-web-test--pages nil
  "What the server sends: an alist from paths to whole answers.")

(defvar agent-q-web-test--heads nil
  "The heads of what the server was asked, the last one first.")

(defun agent-q-web-test--answer (connection text)
  "Answer what CONNECTION asked for with TEXT, of which this is all."
  (push text agent-q-web-test--heads)
  (let ((path (nth 1 (split-string text " "))))
    (process-send-string connection
                         (or (cdr (assoc path agent-q-web-test--pages))
                             "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"))
    (delete-process connection)))

(defun agent-q-web-test--page (html)
  "Return an answer whose body is HTML."
  (format "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%s"
          (string-bytes html) html))

(defmacro agent-q-web-test--serving (pages calls &rest body)
  "Serve PAGES, an alist from paths to answers, in BODY.
It runs in a chat whose model makes CALLS, of fetch_url with the arguments
given; `%s' in an address is the server's place.  Requests wait."
  (declare (indent 2) (debug t))
  `(let* ((agent-q-web-test--pages ,pages)
          (agent-q-web-test--heads nil)
          (server (make-network-process :name "pages" :server t :host "127.0.0.1" :service t
                                        :family 'ipv4 :filter #'agent-q-web-test--answer))
          (place (format "http://127.0.0.1:%d" (process-contact server :service)))
          (agent-q-test-files-answer nil))
     (unwind-protect
         (agent-q-test-files-in-project
             (mapcar (lambda (arguments)
                       (cons "fetch_url"
                             (mapcar (lambda (it)
                                       (cons (car it) (if (stringp (cdr it)) (format (cdr it) place) (cdr it))))
                                     arguments)))
                     ,calls)
           ,@body)
       (delete-process server))))

(ert-deftest agent-q-web-a-page-is-fetched-after-a-request-and-marked-as-data ()
  (agent-q-web-test--serving
      `(("/a?q=1" . ,(agent-q-web-test--page "<title>About</title><h1>One</h1><p>two <b>three</b>")))
      '(((url . "%s/a?q=1")) ((url . "%s/none")))
    (agent-q-test-send "go")
    (agent-q-test-arm)
    (should (string-match-p
             (concat "^\\? Fetch a page\\?\nDangerous: asks 127\\.0\\.0\\.1, unencrypted\\. That is this machine\\.\n"
                     " *url: " (regexp-quote place) "/a\\?q=1\n")
             (buffer-string)))
    ;; Nothing was sent by then.
    (should-not agent-q-web-test--heads)
    (agent-q-test-answer "!")
    (should (string-match-p "Always run exactly this call, in this chat\\." (buffer-string)))
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (agent-q-test-shows "fetch_url "))
    (let ((told (agent-q-test-last-message)))
      (should (string-match-p "\\`<data-[0-9a-f]+ from=\"page http://127.*, from outside the project\">\nTitle: About\n\n# One\n\ntwo three\n</data-"
                              told)))
    (should (string-match-p "\\`GET /a\\?q=1 HTTP/1\\.1\r\n" (car agent-q-web-test--heads)))
    (should-not (string-match-p "cookie\\|referer\\|authorization" (car agent-q-web-test--heads)))
    (agent-q-test-send "go")
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "/none answered 404 Not Found\\." (cdr agent-q-test-files--result)))))

(ert-deftest agent-q-web-a-rule-for-a-host-is-offered-and-pages-by-it-need-no-answer ()
  "The host is not there: it is enough that nobody is asked about it again."
  (agent-q-web-test--serving nil
      '(((url . "https://docs.invalid/one")) ((url . "https://docs.invalid/two"))
        ((url . "https://docs.invalid/?q=abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcde")))
    (agent-q-test-send "go")
    (agent-q-test-answer "!")
    (should (string-match-p
             "Always fetch pages of docs\\.invalid, by https and with short addresses, in this chat\\."
             (buffer-string)))
    (agent-q-test-answer "!")
    (agent-q-test-until (agent-q-test-idle-p))
    (setq agent-q-test-files-asked nil)
    (agent-q-test-files-fails "docs\\.invalid \\(?:can't be reached\\|did not answer\\)")
    (should-not agent-q-test-files-asked)
    (agent-q-test-send "go")
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (equal '("asks docs.invalid. It sends a query of 67 characters.") agent-q-test-files-asked))))

(ert-deftest agent-q-web-the-way-to-a-page-is-that-of-the-chat ()
  "A proxy that Emacs has set is asked, also for a host that only it can find."
  (let ((process-environment (copy-sequence process-environment)))
    (agent-q-web-test--serving
        `(("http://docs.invalid/a" . ,(agent-q-web-test--page "<p>by the proxy")))
        '(((url . "http://docs.invalid/a")))
      (setenv "http_proxy" place)
      (setq agent-q-test-files-answer "approved")
      (agent-q-test-files-succeeds "by the proxy"))))

(provide 'agent-q-web-test)
;;; agent-q-web-test.el ends here
