;;; agent-q-core-test.el --- The core under load and bad luck  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What has to hold whatever happens: no event is lost, order is kept, bugs of
;; the core are contained, an exiting Emacs is not held up, and neither a
;; server that hangs up nor a deleted pipe takes a batch Emacs down.

;;; Code:

(require 'agent-q-test)

;;;; The wake path

(ert-deftest agent-q-core-nothing-is-lost-over-100000-events ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"repeat\":100000,\"text\":\"abcdefghi \"}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "go")
      (goto-char (point-min))
      (search-forward "> go\n\n")
      (let ((streamed (string-trim-right
                       (replace-regexp-in-string
                        "\n" "" (filter-buffer-substring (point) agent-q-render-end)))))
        (should (= (length streamed) (1- (* 10 100000))))
        (should (string-match-p "\\`\\(?:abcdefghi \\)*abcdefghi\\'" streamed)))
      (should (= 0 (plist-get (agent-q-core-status) :queued))))))

(ert-deftest agent-q-core-a-drain-is-bounded-and-the-rest-follows ()
  (agent-q-test-with-chat
    (let ((batches nil)
          (drain (symbol-function 'agent-q-core-drain)))
      (cl-letf (((symbol-function 'agent-q-core-drain)
                 (lambda (_most budget)
                   (let ((events (funcall drain 2 budget)))
                     (push (length events) batches)
                     events))))
        (dotimes (_ 20)
          (agent-q-core-console agent-q-session-number "/no_such_tool"))
        (agent-q-test-until
         (= 20 (how-many "^> /no_such_tool" (point-min) (point-max)))
         "all turns"))
      (should (<= (apply #'max batches) 2))
      (should (> (length batches) 20)))))

(ert-deftest agent-q-core-an-error-in-a-filter-does-not-stop-later-wakes ()
  (agent-q-test-with-chat
    (cl-letf (((symbol-function 'agent-q-events--apply)
               (lambda (_event) (error "A bug in Lisp"))))
      (agent-q-core-console agent-q-session-number "/no_such_tool")
      (agent-q-test-until (with-current-buffer (get-buffer-create "*agent-q-log*")
                            (save-excursion
                              (goto-char (point-min))
                              (search-forward "A bug in Lisp" nil t)))
                          "the logged error"))
    (agent-q-core-console agent-q-session-number "/another_tool")
    (agent-q-test-until (agent-q-test-shows "> /another_tool") "the next turn")))

;;;; Bugs of ours

(ert-deftest agent-q-core-panics-are-contained ()
  (agent-q-test-with-chat
    (should (eq 'rust-panic
                (car (should-error (agent-q-core-provoke-panic "defun")))))
    (let ((seen nil))
      (let ((agent-q-events-subscribers
             `((:fault ,(lambda (event) (setq seen (plist-get event :message))))
               ,@agent-q-events-subscribers)))
        (agent-q-core-provoke-panic "worker")
        (agent-q-test-until seen "the fault event"))
      (should (string-match-p "provoked in a worker" seen)))
    (with-temp-buffer
      (insert-file-contents (plist-get (agent-q-core-status) :log-file))
      (should (search-forward "provoked in a defun" nil t))
      (should (search-forward "provoked in a worker" nil t)))
    (agent-q-core-console agent-q-session-number "/no_such_tool")
    (agent-q-test-until (agent-q-test-shows "Unknown tool: no_such_tool"))))

;;;; An Emacs of its own

(defun agent-q-core-test--emacs (&rest forms)
  "Evaluate FORMS in another batch Emacs with a chat; return (STATUS . OUTPUT).
STATUS is the exit status, or the name of a signal."
  (let ((file (make-temp-file "agent-q-core-test" nil ".el"
                              (mapconcat #'prin1-to-string
                                         (append '((require 'agent-q-test)) forms) "\n"))))
    (unwind-protect
        (with-temp-buffer
          (let ((status (call-process
                         (expand-file-name invocation-name invocation-directory)
                         nil t nil "-Q" "--batch"
                         "-L" (expand-file-name "lisp" agent-q-test-root)
                         "-L" (expand-file-name "test/support" agent-q-test-root)
                         "-l" file)))
            (cons status (buffer-string))))
      (delete-file file))))

(ert-deftest agent-q-core-kill-emacs-does-not-wait-for-a-request ()
  ;; The server never answers: an Emacs that waited for it would never end.
  (should
   (equal 7
          (car (agent-q-core-test--emacs
                '(agent-q-test-with-model
                     "{\"repeat_last\":true,\"turns\":[{\"steps\":[{\"text\":\"Half\"},{\"stall\":true}]}]}"
                   (agent-q-test-with-chat
                     (agent-q-test-send "hi")
                     (agent-q-test-until (agent-q-test-shows "Half"))
                     (kill-emacs 7))))))))

(ert-deftest agent-q-core-a-deleted-pipe-does-not-take-emacs-down ()
  (let ((result
         (agent-q-core-test--emacs
          '(agent-q-test-with-chat
             (delete-process agent-q-events--process)
             (agent-q-core-provoke-panic "worker")
             (agent-q-core-console agent-q-session-number "/no_such_tool")
             (agent-q-test-until (= 0 (plist-get (agent-q-core-status) :requests)))
             ;; The events wait for the pipe that the next command makes.
             (agent-q-events-ensure)
             (agent-q-test-until (agent-q-test-shows "Unknown tool: no_such_tool"))
             (princ "survived")))))
    (should (equal 0 (car result)))
    (should (string-suffix-p "survived" (cdr result)))))

(ert-deftest agent-q-core-a-server-that-hangs-up-does-not-take-emacs-down ()
  (let ((result
         (agent-q-core-test--emacs
          '(agent-q-test-with-model
               "{\"turns\":[{\"steps\":[{\"text\":\"Half\"},{\"cut\":true}]},
                            {\"steps\":[{\"text\":\"Whole\"}]}]}"
             (agent-q-test-with-chat
               ;; A request too large for the socket's buffer is still being written then.
               (agent-q-test-ask (make-string 3000000 ?x))
               (agent-q-test-ask "again")
               (princ (if (agent-q-test-shows "Whole") "survived" (buffer-string))))))))
    (should (equal 0 (car result)))
    (should (string-suffix-p "survived" (cdr result)))))

;;;; Reading buffers

(defun agent-q-core-test--console (line)
  "Run LINE in the current chat and return the result of its one call."
  (let ((content nil)
        (handler agent-q-events-handler))
    (setq agent-q-events-handler
          (lambda (event)
            (when (eq (plist-get event :type) :call-finished)
              (setq content (plist-get event :content)))
            (funcall handler event)))
    (unwind-protect
        (progn
          (agent-q-core-console agent-q-session-number line)
          (agent-q-test-until content line))
      (setq agent-q-events-handler handler))))

(ert-deftest agent-q-core-read-buffer-keeps-what-is-there ()
  (agent-q-test-with-chat
    (let ((buffer (generate-new-buffer "odd text")))
      (unwind-protect
          (progn
            (with-current-buffer buffer
              (insert "λ " (string #x3fffff) (string #xd800) "\nend")
              (narrow-to-region 1 3))
            (should (equal (agent-q-core-test--console "/read_buffer buffer=\"odd text\"")
                           "Buffer odd text (fundamental-mode), characters 1 to 3 of 9, narrowed by the user to 1–3:\nλ "))
            (with-current-buffer buffer (widen))
            (should (equal (agent-q-core-test--console "/read_buffer buffer=\"odd text\"")
                           "Buffer odd text (fundamental-mode), characters 1 to 9 of 9, 4 raw bytes shown as \\ooo:\nλ \\377\\355\\240\\200\nend"))
            (should (equal (agent-q-core-test--console "/read_buffer buffer=\"odd text\" start=6 end=99")
                           "Buffer odd text (fundamental-mode), characters 6 to 9 of 9:\nend")))
        (kill-buffer buffer)))))

(ert-deftest agent-q-core-read-buffer-comes-in-parts-and-reports-misses ()
  (agent-q-test-with-chat
    (let ((buffer (generate-new-buffer "long text")))
      (unwind-protect
          (progn
            (with-current-buffer buffer
              (insert (make-string 20000 ?a)))
            (let ((part (agent-q-core-test--console "/read_buffer buffer=\"long text\"")))
              (should (string-match "\\[8000 more characters; ask with start=\\(12001\\)\\]\\'"
                                    part))
              (should (string-match-p
                       (format "characters %s to 20001 of 20001:\na\\{8000\\}\\'"
                               (match-string 1 part))
                       (agent-q-core-test--console
                        (format "/read_buffer buffer=\"long text\" start=%s"
                                (match-string 1 part)))))))
        (kill-buffer buffer)))
    (should (string-match-p "\\`No buffer is named gone\\. Some that exist: "
                            (agent-q-core-test--console "/read_buffer gone")))))

(ert-deftest agent-q-core-read-buffer-reads-the-users-buffer-not-the-chat ()
  (let ((buffer (generate-new-buffer "my work")))
    (unwind-protect
        (progn
          (switch-to-buffer buffer)
          (insert "(defun mine ())")
          (agent-q-test-with-chat
            (should (string-match-p "\\`Buffer my work .*:\n(defun mine ())\\'"
                                    (agent-q-core-test--console "/read_buffer")))
            (should (eq (current-buffer) chat))))
      (kill-buffer buffer))))

(provide 'agent-q-core-test)
;;; agent-q-core-test.el ends here
