;;; agent-q-watch-reading-test.el --- Reading files is asked about by what is read  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Private files that code in the image opens to read them, by whatever name,
;; while somebody changes what names mean; and that the way in which files are
;; opened there makes no difference to the program.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-watch)

(defconst agent-q-watch-reading-test--preparation "
(require :sb-posix)
(defun aq-make (name text)
  (ensure-directories-exist name)
  (with-open-file (stream name :direction :output :if-exists :supersede) (write-string text stream))
  t)
(defun aq-line (stream)
  (unwind-protect (values (read-line stream)) (close stream)))
(defun aq-link (to name)
  (ignore-errors (sb-posix:unlink name))
  (sb-posix:symlink to name))
(aq-make \"DIR/.env\" \"secret\")
(aq-make \"DIR/open/page\" \"page\")
(aq-make \"DIR/vault.env/page\" \"secret\")
(aq-link \"DIR/vault.env\" \"DIR/way\")
(aq-link \"DIR/.env\" \"DIR/open/link\")
(aq-link \"DIR/open\" \"DIR/elsewhere\")
t"
  "What the forms here need.")

(agent-q-test-image-on-each watch-knows-private-files-by-any-name ()
  "A private file is asked about however its name is written, and no other."
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  (agent-q-test-watch-with connection "deny"
    (pcase-dolist (`(,name . ,private)
                   '(("DIR/.env" . t) ("DIR/open/../.env" . t) ("DIR/./.env" . t) ("DIR//.env" . t)
                     ("DIR/open/link" . t) ("DIR/way/page" . t) ("DIR/elsewhere/link" . t)
                     ("DIR/elsewhere/../way/page" . t) ("DIR/vault.env/page" . t)
                     ("DIR/open/page" . nil) ("DIR/elsewhere/page" . nil)
                     ("DIR/open/../open/page" . nil) ("DIR/way/../open/page" . nil)))
      (dolist (form '("(aq-line (open (sb-ext:parse-native-namestring %S)))"
                      "(aq-line (sb-sys:make-fd-stream (sb-unix:unix-open %S 0 0)))"
                      "(aq-line (sb-sys:make-fd-stream (sb-posix:open %S 0)))"))
        (let ((reply (agent-q-test-watch-eval connection (format form name))))
          (if private
              (should (string-match-p "\\`read .*\\.env" (car (plist-get reply :denials))))
            (should-not (plist-get reply :denials))
            (should (equal '("\"page\"") (agent-q-test-watch-values reply)))))))))

(agent-q-test-image-on-each watch-hears-of-what-handlers-read ()
  "Code that OPEN calls when it fails reads no private file unasked."
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  (agent-q-test-watch-with connection "deny"
    (dolist (read '("(sb-unix:unix-open \"DIR/.env\" 0 0)" "(sb-posix:open \"DIR/.env\" 0)"
                    "(sb-posix:open #p\"DIR/.env\" 0)" "(open \"DIR/.env\")"))
      (dolist (failing '("(open \"/nowhere/x\")" "(sb-unix:unix-open 'name 0 0)"
                         "(sb-posix:open \"/nowhere/x\" 0)"))
        (let ((reply (agent-q-test-watch-eval
                      connection (format "(let ((got nil))
                                            (ignore-errors
                                             (handler-bind ((error (lambda (c) c
                                                                     (setf got (ignore-errors %s)))))
                                               %s))
                                            got)"
                                         read failing))))
          (should (string-match-p "\\`read .*\\.env" (car (plist-get reply :denials))))
          (should (equal '("NIL") (agent-q-test-watch-values reply))))))))

(agent-q-test-image-on-each watch-gives-what-is-to-be-read-instead ()
  "A handler that gives something in the place of a private file gives it for OPEN."
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  (agent-q-test-watch-with connection "deny"
    (dolist (open '("open \"DIR/.env\"" "open \"DIR/open/link\""))
      (should (equal '("\"instead\"")
                     (agent-q-test-watch-values
                      (agent-q-test-watch-eval
                       connection (format "(handler-bind ((file-error (lambda (c)
                                                            (use-value (make-string-input-stream \"instead\") c))))
                                             (aq-line (%s)))"
                                          open))))))
    (should (equal '("7") (agent-q-test-watch-values
                           (agent-q-test-watch-eval
                            connection "(handler-bind ((file-error (lambda (c) (use-value 7 c))))
                                          (sb-unix:unix-open \"DIR/.env\" 0 0))"))))))

(agent-q-test-image-on-each watch-is-not-outrun-by-whoever-swaps-files ()
  "In 2,000 tries no private file is read by a name that is pointed elsewhere meanwhile."
  (unless (eq system-type 'gnu/linux) (ert-skip "Only Linux exchanges names"))
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  ;; It is the user's thread: nobody is asked about what that does.
  (agent-q-test-watch-directly connection "(progn
    (defvar aq-swaps t)
    (setf aq-swaps t)
    (aq-make \"DIR/CLIENT/place/page\" \"page\")
    (aq-link \"DIR/vault.env\" \"DIR/CLIENT/link\")
    (defvar aq-swapper
      (sb-thread:make-thread
       (lambda ()
         (loop while aq-swaps
               do (loop repeat 2
                        ;; Each gets the other's name, at once.
                        do (sb-alien:alien-funcall
                            (sb-alien:extern-alien \"renameat2\"
                                                   (function sb-alien:int sb-alien:int sb-alien:c-string sb-alien:int
                                                             sb-alien:c-string sb-alien:unsigned-int))
                            -100 \"DIR/CLIENT/place\" -100 \"DIR/CLIENT/link\" 2))
                  ;; It is the directory for a little longer: each question takes its time.
                  (loop repeat 20000 while aq-swaps)))))
    t)")
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-image-eval
                  connection
                  (agent-q-test-watch-filled
                   connection "(let ((read (make-hash-table :test 'equal)))
                                 ;; And more where the two threads have not met yet.
                                 (loop for try from 1 to 100000
                                       until (and (< 2000 try)
                                                  (gethash :denied read) (gethash \"page\" read))
                                       do
                                   (incf (gethash (handler-case (aq-line (open \"DIR/CLIENT/place/page\"))
                                                    (agent-q-image::effect-denied () :denied)
                                                    (file-error () :nothing))
                                                  read 0)))
                                 (list (gethash \"secret\" read 0) (plusp (gethash \"page\" read 0))
                                       (plusp (gethash :denied read 0))))")
                  :watch '(:patience 30 :private (".env" "id_rsa")))))
      (agent-q-test-watch-directly connection "(progn (setf aq-swaps nil) (sb-thread:join-thread aq-swapper) t)")
(should (equal '("(0 T T)") (agent-q-test-watch-values reply))))))

(agent-q-test-image-on-each watch-opens-files-as-they-are-opened-elsewhere ()
  "What opening a file gives, and how it fails, is the same under the watch."
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  (agent-q-test-watch-directly connection "(progn
    (aq-make \"DIR/with space/ümlaut\" \"wide\") (aq-make \"DIR/old~\" \"old\")
    (aq-link \"DIR/loop\" \"DIR/loop\") (aq-link \"DIR/nowhere\" \"DIR/dangling\")
    (defun aq-opened (function name)
      (handler-case
          (let ((result (multiple-value-list (funcall function name))))
            (list (if (streamp (first result))
                      (list (namestring (first result)) (stream-external-format (first result))
                            (aq-line (first result)))
                      ;; Whether it is given on to programs.
                      (list (and (first result)
                                 (prog1 (list (sb-posix:fcntl (first result) sb-posix:f-getfd)
                                              (sb-posix:fcntl (first result) sb-posix:f-getfl))
                                   (sb-posix:close (first result))))
                            (rest result)))))
        (stream-error (condition) (list (type-of condition)))
        (error (condition) (list (type-of condition) (princ-to-string condition))))) t)")
  (let ((form (agent-q-test-watch-filled
               connection
               "(loop for name in (list \"DIR/open/page\" \"DIR/elsewhere/page\" \"DIR/none\" \"DIR/loop\"
                                        \"DIR/dangling\" \"DIR/open/page/more\" \"DIR/open/page/\" \"DIR/old~\"
                                        \"DIR/with space/ümlaut\" \"\" \"/\" \"relative\" \"/dev/null\"
                                        (format nil \"DIR/~A\" (make-string 300 :initial-element #\\a)))
                      collect (aq-opened (lambda (name)
                                           (open (sb-ext:parse-native-namestring name)))
                                         name)
                      collect (aq-opened (lambda (name) (sb-unix:unix-open name 0 0)) name)
                      collect (aq-opened (lambda (name) (sb-unix:unix-open name sb-posix:o-nonblock 0))
                                         name)
                      collect (aq-opened (lambda (name) (sb-posix:open name 0)) name))")))
    (agent-q-test-watch-with connection "deny"
      (should (equal (agent-q-test-watch-values (agent-q-test-image-eval connection form))
                     (agent-q-test-watch-values
                      (agent-q-test-image-eval
                       connection form :watch '(:patience 30 :private (".env"))))))
      (should-not agent-q-test-watch-questions))))

(agent-q-test-image-on-each watch-uses-the-quick-way-to-open-files ()
  "Names without a link in them are opened in one step, where Linux has that; others are not."
  (agent-q-test-watch-directly connection agent-q-watch-reading-test--preparation)
  (agent-q-test-watch-with connection "deny" (agent-q-test-watch-eval connection "1"))
  (should (equal "(NIL NIL NIL NIL NIL NIL NIL NIL T T)"
                 (agent-q-test-watch-directly
                  connection "(mapcar (lambda (name)
                                        (not (null (agent-q-image::straight-octets
                                                    (coerce name '(simple-array character (*)))))))
                                      (list \"\" \"/\" \"a\" \"/a/../b\" \"/a/./b\" \"/a//b\" \"/a/b/\" \"/a~\"
                                            \"/.a/..b/...\" \"/a b/c\"))")))
  (let ((opened (agent-q-test-watch-directly
                 connection "(let ((opener (agent-q-image::straight-opener)))
                               (and opener
                                    (mapcar (lambda (name)
                                              (let ((it (funcall opener (agent-q-image::straight-octets name) 0)))
                                                (or (minusp it) (sb-unix:unix-close it))))
                                            (list \"DIR/open/page\" \"DIR/open/link\" \"DIR/way/page\"
                                                  \"DIR/elsewhere/page\" \"/proc/self/status\" \"DIR/none\"))))")))
    (when (equal opened "NIL")
      (ert-skip "This system has no such way"))
    (should (equal "(T T T T T T)" opened))))

(provide 'agent-q-watch-reading-test)
;;; agent-q-watch-reading-test.el ends here
